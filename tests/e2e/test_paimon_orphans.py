"""Cleaning orphans of Paimon from the command line, local and behind S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from tests.command import Lakesweep
from tests.paimon import JavaTable, JavaWarehouses
from tests.servers import S3Server

BUCKET = "paimon-orphans"


@pytest.fixture
def lakesweep(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Lakesweep:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")  # the store and the plans lie there
    return Lakesweep(capfd)


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Both engines. What Spark runs is run here, by the same steps: tests/spark has it for real."""
    monkeypatch.setattr(App, "engine", _engine_here)
    return "--engine", request.param


@contextmanager
def _engine_here(app: App, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
    assert (name, verbose) == ("spark", False)
    yield LocalSweepEngine(app.stores)


def _own(java_tables: JavaWarehouses, name: str, folder: Path) -> JavaTable:
    return java_tables.table(name).copy_to(folder)


def _orphans(java: JavaTable) -> set[str]:
    planted = java.references["planted"]
    return {each["path"] for each in planted if each["expect"] == "delete"}


def test_a_dry_run_names_what_a_real_run_deletes(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path, engine: tuple[str, str]
) -> None:
    java = _own(java_tables, "pk_dv", tmp_path)
    before = java.stored()
    dry = lakesweep("paimon", "orphans", str(java.folder), "--dry-run", *engine).document
    assert java.stored() == before
    done = lakesweep("paimon", "orphans", str(java.folder), "--yes", *engine)
    assert done.code == 0
    assert {file["path"] for file in dry["files"]} == {
        file["path"] for file in done.document["files"]
    }
    assert {file["outcome"] for file in done.document["files"]} == {"deleted"}
    assert before - java.stored() == _orphans(java)


def test_one_table_that_fails_does_not_stop_the_others(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path, engine: tuple[str, str]
) -> None:
    whole = _own(java_tables, "pk_none", tmp_path / "w")
    old = _own(java_tables, "s_append", tmp_path / "w")
    damaged = _own(java_tables, "append_plain", tmp_path / "w")
    for path in damaged.folder.glob("snapshot/snapshot-*"):
        path.unlink()
    before = {java: java.stored() for java in (whole, old, damaged)}
    done = lakesweep("paimon", "orphans", str(tmp_path / "w"), "--yes", *engine)
    assert done.code == 4
    assert [each["table"] for each in done.document["failed_tables"]] == [f"{damaged.folder}/"]
    assert damaged.stored() == before[damaged]
    assert before[whole] - whole.stored() == _orphans(whole)
    assert before[old] - old.stored() == _orphans(old)


def test_a_damaged_table_ends_with_code_4(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path, engine: tuple[str, str]
) -> None:
    java = _own(java_tables, "append_plain", tmp_path)
    for path in java.folder.glob("manifest/manifest-list-*"):
        path.unlink()
    before = java.stored()
    done = lakesweep("paimon", "orphans", str(java.folder), "--yes", *engine)
    assert done.code == 4
    assert "missing" in done.error["message"]
    assert java.stored() == before


def test_young_files_need_an_override(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path, engine: tuple[str, str]
) -> None:
    java = _own(java_tables, "pk_none", tmp_path)
    words = ("paimon", "orphans", str(java.folder), "--older-than", "1s", "--dry-run", *engine)
    refused = lakesweep(*words)
    assert refused.code == 3
    assert "grace" in refused.error["hint"]
    found = lakesweep(*words, "--override", "grace").document["found"]
    assert found > len(_orphans(java))


def test_a_time_to_come_changes_nothing(lakesweep: Lakesweep, java_tables: JavaWarehouses) -> None:
    words = ("--older-than", "2999-01-01T00:00:00Z", "--yes")
    folder = java_tables.table("pk_none").folder
    assert lakesweep("paimon", "orphans", str(folder), *words).code == 2


def test_a_real_run_is_recorded_and_a_dry_run_is_not(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    java = _own(java_tables, "pk_none", tmp_path)
    lakesweep("paimon", "orphans", str(java.folder), "--dry-run")
    assert not list((tmp_path / "work").iterdir())
    lakesweep("paimon", "orphans", str(java.folder), "--yes")
    (run,) = lakesweep("runs").lines
    assert (run["kind"], run["status"]) == ("apply", "done")
    assert run["spec"] == {"engine": "local", "paimon": str(java.folder)}
    assert run["figures"]["deleted"] == len(_orphans(java))
    shown = lakesweep("show", run["plan"], "--files", "--verdict", "delete").lines
    assert {line["path"] for line in shown} == {f"{java.folder}/{name}" for name in _orphans(java)}


def test_a_folder_without_tables_is_not_found(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("paimon", "orphans", str(tmp_path))
    assert done.code == 6
    assert "no Paimon table" in done.error["message"]


def test_people_see_counts_and_names_that_stay(
    lakesweep: Lakesweep, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    java = _own(java_tables, "pk_none", tmp_path)
    done = lakesweep("paimon", "orphans", str(java.folder), "--yes", json=False)
    assert "14  in total" in done.err
    assert "notes.txt" in done.err
    assert "deleted" in done.out


def test_orphans_go_from_a_bucket(
    lakesweep: Lakesweep,
    java_tables: JavaWarehouses,
    moto: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = java_tables.table("pk_dv")
    moto.make_bucket(BUCKET)
    for name in java.stored():
        moto.boto3().upload_file(str(java.folder / name), BUCKET, f"shop.db/t/{name}")
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    # In the bucket all files are young, those that were planted as young ones as well.
    young = ("--older-than", "0s", "--override", "grace")
    done = lakesweep("paimon", "orphans", f"s3a://{BUCKET}/shop.db", *young, "--yes")
    assert done.code == 0
    pages = moto.boto3().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    left = {item["Key"].removeprefix("shop.db/t/") for page in pages for item in page["Contents"]}
    gone = java.stored() - left
    assert _orphans(java) <= gone
    assert gone.isdisjoint(path for _, path in java.referenced())
