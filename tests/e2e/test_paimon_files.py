"""`lakesweep paimon files` from the command line, on Java's tables, local and behind S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Lakesweep
from tests.paimon import JavaTable, JavaWarehouses
from tests.servers import S3Server

BUCKET = "paimon-files"


@pytest.fixture
def lakesweep(capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd)


@pytest.fixture
def own(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    """A table that the test may harm."""
    return java_tables.table("branched").copy_to(tmp_path)


def test_a_table_behind_s3_reaches_what_java_references(
    lakesweep: Lakesweep,
    java_tables: JavaWarehouses,
    moto: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = java_tables.table("pk_decoupled")
    moto.make_bucket(BUCKET)
    for name in table.stored():
        moto.boto3().upload_file(str(table.folder / name), BUCKET, f"shop.db/t/{name}")
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    address = f"s3a://{BUCKET}/shop.db/t"
    found = {
        (line["kind"], line["path"].removeprefix(f"{address}/"))
        for line in lakesweep("paimon", "files", address).lines
    }
    assert found == table.referenced()


def test_lines_for_people_end_with_totals(lakesweep: Lakesweep, own: JavaTable) -> None:
    done = lakesweep("paimon", "files", str(own.folder), json=False)
    assert done.code == 0
    assert len(done.out.splitlines()) == 48
    assert done.err.startswith("48 files, ")


def test_a_relative_folder_will_do(
    lakesweep: Lakesweep, own: JavaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.folder.parent)
    assert len(lakesweep("paimon", "files", own.folder.name).lines) == 48


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        (["--snapshot", "2"], "main:snapshot-2"),
        (["--tag", "base"], "main:tag-base"),
        (["--branch", "dev"], "dev:snapshot-4"),
        (["--branch", "dev", "--tag", "on-branch"], "dev:tag-on-branch"),
        (["--branch", "bare", "--snapshot", "1"], "bare:snapshot-1"),
    ],
)
def test_one_state_can_be_chosen(
    lakesweep: Lakesweep, own: JavaTable, options: list[str], owner: str
) -> None:
    done = lakesweep("paimon", "files", str(own.folder), *options)
    found = {line["path"].removeprefix(f"{own.folder}/") for line in done.lines}
    assert found == own.live()[owner]


def test_a_branch_that_was_never_committed_to_reads_nothing(
    lakesweep: Lakesweep, java_tables: JavaWarehouses
) -> None:
    table = java_tables.table("never_committed")
    done = lakesweep("paimon", "files", str(table.folder), "--branch", "main")
    assert (done.code, done.lines) == (0, [])


@pytest.mark.parametrize("options", [["--snapshot", "99"], ["--tag", "nope"], ["--branch", "nope"]])
def test_what_is_not_there_is_not_found(
    lakesweep: Lakesweep, own: JavaTable, options: list[str]
) -> None:
    done = lakesweep("paimon", "files", str(own.folder), *options)
    assert (done.code, done.error["exit_code"]) == (6, 6)


@pytest.mark.parametrize(
    "options", [["--snapshot", "1", "--tag", "a"], ["--branch", "dev", "--tolerant"]]
)
def test_options_that_contradict_each_other_are_wrong_usage(
    lakesweep: Lakesweep, own: JavaTable, options: list[str]
) -> None:
    assert lakesweep("paimon", "files", str(own.folder), *options).code == 2


def test_a_folder_that_is_no_table_is_not_found(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("paimon", "files", str(tmp_path))
    assert done.code == 6
    assert done.error["hint"] == "name the folder that holds schema/ and snapshot/"


def harm(own: JavaTable) -> str:
    """Cut a manifest short that a snapshot needs, by its name."""
    manifests = dict.fromkeys(path for kind, path in own.referenced() if kind == "manifest")
    name = min(manifests)
    data = (own.folder / name).read_bytes()
    (own.folder / name).write_bytes(data[:-9])
    return name


def test_a_harmed_manifest_ends_the_command(lakesweep: Lakesweep, own: JavaTable) -> None:
    name = harm(own)
    done = lakesweep("paimon", "files", str(own.folder))
    assert done.code == 4
    assert f"{name} is truncated" in done.error["message"]


def test_tolerant_goes_on_past_it(lakesweep: Lakesweep, own: JavaTable) -> None:
    name = harm(own)
    done = lakesweep("paimon", "files", str(own.folder), "--tolerant")
    kinds = {line["kind"] for line in done.lines}
    assert done.code == 4
    assert {"data", "manifest", "snapshot"} <= kinds
    assert f"{name}: truncated" in done.err


def test_a_table_from_the_future_says_so(lakesweep: Lakesweep, own: JavaTable) -> None:
    path = own.folder / "snapshot" / "snapshot-4"
    path.write_text(path.read_text().replace('"version" : 3', '"version" : 9'))
    done = lakesweep("paimon", "files", str(own.folder))
    assert (done.code, done.error["hint"]) == (4, "use a newer lakesweep")


def test_tolerant_goes_on_past_a_branch_without_a_schema(
    lakesweep: Lakesweep, own: JavaTable
) -> None:
    (own.folder / "branch" / "branch-dev" / "schema" / "schema-0").unlink()
    done = lakesweep("paimon", "files", str(own.folder), "--tolerant")
    assert done.code == 4
    assert done.err.count("holds no schema") == 1
