"""The demo without Spark, in this process; tests/spark/test_demo.py has it on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.demo.garbage import PlantedGarbage, add_garbage, prove_left, prove_same, read_all
from lakesweep.demo.lake import DemoLake
from lakesweep.demo.position_deletes import delete_rows
from lakesweep.errors import LakesweepError
from tests.command import Lakesweep

HERE = ("demo", "--engine", "local")


@pytest.fixture
def lakesweep(capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd)


@pytest.fixture
def lake(tmp_path: Path) -> DemoLake:
    lake = DemoLake(tmp_path / "lake")
    lake.create()
    return lake


@pytest.fixture
def planted(lake: DemoLake) -> PlantedGarbage:
    return add_garbage(lake)


def test_programs_get_the_story_and_a_lake_that_is_kept_can_be_used(
    lakesweep: Lakesweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lakesweep(*HERE, "--keep", str(tmp_path / "lake"))
    assert done.code == 0, done.err
    assert done.lines[0]["command"] == (
        "lakesweep plan demo --engine local --override unlisted-table=warehouse/shop/customers"
    )
    ends = [each["status"] for each in done.lines if "claimed_by" in each]
    assert [*ends[-2:]] == ["incomplete", "waiting"]  # a table that no catalog lists is withheld
    proof = done.lines[-1]
    assert proof["left"] == {"referenced": 48, "hidden": 2, "unknown-kind": 1, "too-new": 1}
    assert len(proof["readable"]) == 9
    monkeypatch.chdir(tmp_path / "lake")
    assert lakesweep("plan", "demo", "--engine", "local").code == 0
    assert lakesweep("show", "demo", "--verdict", "delete").lines == []
    assert Path("plan.html").read_text().startswith("<!")


def test_a_folder_with_files_is_left_alone(lakesweep: Lakesweep, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = lakesweep(*HERE, "--keep", str(tmp_path))
    assert (done.code, "is not empty" in done.error["message"]) == (2, True)


def test_without_java_it_tells_how_to_go_on(
    lakesweep: Lakesweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = lakesweep("demo")
    assert (done.code, done.error["hint"].endswith("or add --engine local")) == (2, True)


@pytest.mark.usefixtures("planted")
def test_rubbish_of_every_kind_is_planted(lakesweep: Lakesweep, lake: DemoLake) -> None:
    lakesweep.config = lake.config
    dropped = f"unlisted-table={lake.warehouse}/shop/customers"
    plan = lakesweep("plan", "demo", "--engine", "local", "--override", dropped).document
    assert {guess: amount["files"] for guess, amount in plan["guesses"].items()} == {
        "aborted-write": 2,
        "dropped-table": 5,
        "expired-snapshot": 10,
        "failed-commit": 3,
        "old-metadata": 2,
        "temporary": 1,
    }
    assert {reason: amount["files"] for reason, amount in plan["totals"]["keep"].items()} == {
        "referenced": 44,
        "hidden": 2,
        "unknown-kind": 1,
        "too-new": 1,
    }
    assert [each["names"] for each in plan["overlaps"]] == [
        ["demo.shop.clicks", "demo.shop.visits"]
    ]


def test_one_file_comes_back_by_its_local_name(
    lakesweep: Lakesweep, lake: DemoLake, planted: PlantedGarbage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.folder)
    plan = lakesweep("plan", "demo", "--engine", "local", "--override", "first-run").document
    lakesweep("apply", plan["plan"], "--engine", "local", "--quarantine", "--yes")
    name = str(planted.aborted.relative_to(lake.folder))
    restored = lakesweep("quarantine", "restore", plan["plan"], "--path", name).document
    assert (restored["restored"], planted.aborted.exists()) == (1, True)


@pytest.mark.usefixtures("planted")
def test_what_a_guard_refuses_starts_no_spark(
    lakesweep: Lakesweep, lake: DemoLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakesweep.config = lake.config
    plan = lakesweep("plan", "demo", "--engine", "local").document["plan"]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert lakesweep("apply", plan, "--yes").code == 3
    assert lakesweep("apply", plan, "--override", "first-run", "--dry-run").code == 0
    assert lakesweep("apply", plan, "--override", "first-run", "--yes").code == 2


def test_deleted_positions_are_not_read(lake: DemoLake) -> None:
    table = lake.tables()["shop.events"]
    before = table.scan().to_arrow()["id"].to_pylist()
    delete_rows(table, [0, 5])
    assert table.scan().to_arrow()["id"].to_pylist() == [*before[1:5], *before[6:]]


def test_a_lost_file_spoils_the_proof(lake: DemoLake) -> None:
    kept = dict.fromkeys(lake.files(), "all")
    prove_left(lake, kept)
    next(lake.warehouse.rglob("*-deletes.parquet")).unlink()
    with pytest.raises(LakesweepError, match="gone or there"):
        prove_left(lake, kept)


def test_changed_rows_spoil_the_proof(lake: DemoLake) -> None:
    before = read_all(lake)
    prove_same(before, read_all(lake))
    lake.tables()["shop.visits"].delete("id = 7")
    with pytest.raises(LakesweepError, match="do not read as they did"):
        prove_same(before, read_all(lake))
