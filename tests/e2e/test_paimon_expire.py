"""Expiring snapshots, changelogs and tags from the command line, local and behind S3."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.file_batches import FILE_SCHEMA, file_batch
from lakesweep.storage.stores import Stores
from tests.command import Lakesweep
from tests.paimon import JavaTable, JavaWarehouses
from tests.servers import S3Server

BUCKET = "paimon-expire"
AT_ONCE = ("--settle", "0s")
KEEP_ONE = ("--retain-min", "1", "--retain-max", "1", *AT_ONCE)


@pytest.fixture
def lakesweep(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Lakesweep:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")  # the store lies there
    return Lakesweep(capfd)


def _own(java_tables: JavaWarehouses, name: str, folder: Path) -> JavaTable:
    return java_tables.table(name).copy_to(folder)


def _deleted(table: JavaTable, case: str) -> set[str]:
    """What Java deletes."""
    cases = {each["case"]: each for each in table.answer("expire_snapshots")}
    return set(cases[case]["deleted"])


def test_a_dry_run_names_what_a_real_run_deletes(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "pk_lookup", tmp_path)
    before = table.stored()
    words = ("paimon", "expire-snapshots", str(table.folder), *KEEP_ONE)
    dry = lakesweep(*words, "--dry-run").document
    paths = {file["path"].removeprefix(f"{table.folder}/") for file in dry.pop("files")}
    assert table.stored() == before
    done = lakesweep(*words, "--yes").document
    assert before - table.stored() == paths == _deleted(table, "keep1")
    assert {key: done[key] for key in dry if key != "dry_run"} == {
        key: dry[key] for key in dry if key != "dry_run"
    }
    assert done["expired_snapshots"] == 9
    assert (done["earliest"], done["latest"]) == (10, 10)
    assert sum(done["deleted"].values()) == len(paths)


def test_people_see_what_would_go_and_nothing_goes_without_their_word(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "append_plain", tmp_path)
    before = table.stored()
    words = ("paimon", "expire-snapshots", str(table.folder), *KEEP_ONE)
    shown = lakesweep(*words, "--dry-run", json=False)
    assert len(shown.out.splitlines()) == len(_deleted(table, "keep1"))
    assert "4 snapshots to expire" in shown.err
    assert lakesweep(*words).code == 3
    assert table.stored() == before


@pytest.mark.parametrize(
    "options",
    [
        ["--retain-min", "0"],
        ["--retain-min", "3", "--retain-max", "2"],
        ["--retain-max", "3"],
        ["--limit", "-1"],
        ["--older-than", "2999-01-01T00:00:00Z"],
        ["--older-than", "yesterday"],
    ],
)
def test_absurd_words_are_refused_and_change_nothing(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path, options: list[str]
) -> None:
    table = _own(java_tables, "append_plain", tmp_path)
    before = table.stored()
    done = lakesweep("paimon", "expire-snapshots", str(table.folder), *options, "--yes")
    assert done.code == 2
    assert table.stored() == before


def test_a_branch_that_is_not_there_is_not_found(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "branched", tmp_path)
    done = lakesweep("paimon", "expire-snapshots", str(table.folder), "--branch", "nope", "--yes")
    assert done.code == 6
    assert "has no branch nope" in done.err
    assert "main, bare, dev" in done.err


def test_a_manifest_that_is_gone_stops_it(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "append_plain", tmp_path)
    newest = json.loads((table.folder / "snapshot/snapshot-5").read_text())
    (table.folder / "manifest" / newest["baseManifestList"]).unlink()
    before = table.stored()
    done = lakesweep("paimon", "expire-snapshots", str(table.folder), *KEEP_ONE, "--yes")
    assert done.code == 4
    assert newest["baseManifestList"] in done.error["message"]
    assert table.stored() == before


def test_a_table_behind_s3_expires_as_java_does(
    lakesweep: Lakesweep,
    java_tables: JavaWarehouses,
    moto: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = java_tables.table("pk_dv")
    moto.make_bucket(BUCKET)
    for name in table.stored():
        moto.boto3().upload_file(str(table.folder / name), BUCKET, f"shop.db/t/{name}")
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    done = lakesweep("paimon", "expire-snapshots", f"s3a://{BUCKET}/shop.db/t", *KEEP_ONE, "--yes")
    assert done.code == 0
    pages = moto.boto3().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    left = {item["Key"].removeprefix("shop.db/t/") for page in pages for item in page["Contents"]}
    assert table.stored() - left == _deleted(table, "keep1")
    assert not left - table.stored()


def test_folders_that_are_empty_afterwards_go_and_others_stay(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "s_append", tmp_path)
    gone = sorted(name for name in _deleted(table, "keep1") if "=" in name)
    folder = (table.folder / gone[0]).parent
    shutil.rmtree(folder / "sub")
    for path in folder.iterdir():
        if str(path.relative_to(table.folder)) not in gone:
            path.unlink()
    (folder.parent / "bucket-7").mkdir()
    done = lakesweep("paimon", "expire-snapshots", str(table.folder), *KEEP_ONE, "--yes").document
    assert done["folders_removed"] == 1
    assert not folder.exists()
    assert (folder.parent / "bucket-7").is_dir()
    assert not (table.folder / "_lakesweep").exists()


def test_changelogs_expire_as_with_java(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "pk_decoupled", tmp_path)
    before = table.stored()
    options = ("--retain-min", "1", "--retain-max", "2", *AT_ONCE, "--yes")
    done = lakesweep("paimon", "expire-changelogs", str(table.folder), *options).document
    assert before - table.stored() == _deleted(table, "expire_changelog to 2")
    assert (done["expired_changelogs"], done["earliest"], done["latest"]) == (2, 6, 6)


def test_tags_expire_with_what_only_they_held(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "tag_alive", tmp_path)
    before = table.stored()
    done = lakesweep(
        "paimon", "expire-tags", str(table.folder), "--older-than", "5d", *AT_ONCE, "--yes"
    )
    assert done.document["tags"] == ["first", "second"]
    assert done.document["expired_tags"] == 2
    live = table.live()
    held = set.union(*(live[owner] for owner in live if ":snapshot-" in owner))
    assert held <= table.stored()
    assert {name for name in before - table.stored() if "/data-" in name}


def test_tags_are_not_older_than_their_files(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    table = _own(java_tables, "tag_alive", tmp_path)
    done = lakesweep(
        "paimon", "expire-tags", str(table.folder), "--older-than", "50d", *AT_ONCE, "--yes"
    )
    assert done.document["tags"] == []


def test_a_planted_journal_deletes_nothing_and_is_named(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    """In the form in which an earlier version wrote its journals, and believed them."""
    table, other = (_own(java_tables, name, tmp_path / "w") for name in ("append_plain", "pk_none"))
    notes = tmp_path / "notes.txt"
    notes.write_text("of somebody else")
    victims = [notes, *(other.folder / name for name in other.stored())]
    victims += [table.folder / name for name in table.stored()]
    journal = table.folder / "_lakesweep" / "expiry-00000000000000000000000000000000"
    rows = file_batch("data", [(str(path), 1) for path in victims])
    write_dataset(Stores(), f"{journal}/", FILE_SCHEMA, [rows])
    note = {"version": 1, "table": f"{table.folder}/", "expiry": "", "created": "2026-11-01T00:00Z"}
    (journal / "expiry.json").write_text(json.dumps(note))

    done = lakesweep("paimon", "expire-snapshots", str(table.folder), *AT_ONCE, "--yes")

    assert (done.code, done.document["deleted"]) == (0, {})
    assert all(path.exists() for path in (*victims, journal / "expiry.json"))
    assert done.document["ignored_journals"] == [
        {"address": f"{journal}/", "reason": "this store did not write it"}
    ]
    assert f"warning: {journal}/ is not carried out" in done.err
    assert f"try: lakesweep paimon orphans {table.folder}/" in done.err
