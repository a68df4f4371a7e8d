"""What nobody names goes, and nothing else does."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lakesweep.clock import SystemClock
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, OrphanPlan, plan_orphans
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.sweep.local_orphans import OrphanRemover
from tests.paimon import TABLES, JavaTable, JavaWarehouses
from tests.paimon_orphans import run_log

#: Java stops at the name of a temporary file there, and answers nothing.
ANSWERED = tuple(name for name in TABLES if name != "shop.py_temp")
OLD = timedelta(days=10)


def plan_of(java: JavaTable) -> OrphanPlan:
    table = PaimonTable.open(Stores(), str(java.folder))
    return plan_orphans(TableGroup((table,)), datetime.now(UTC) - timedelta(days=1))


def names_in(java: JavaTable, paths: list[str]) -> set[str]:
    return {path.removeprefix(f"{java.folder}/") for path in paths}


def planned(java: JavaTable, plan: OrphanPlan) -> set[str]:
    return names_in(java, [path for batch in plan.batches() for path in batch["path"].to_pylist()])


def clean(java: JavaTable) -> OrphanOutcome:
    outcome, clock = OrphanOutcome(), SystemClock()
    with outcome.outcomes, plan_of(java) as plan, TemporaryDirectory() as plans:
        remover = OrphanRemover(
            Stores(), lambda: run_log(clock), clock, plans, str(java.folder), DeleteRate()
        )
        assert not remover.remove([plan], outcome)
    return outcome


def expected(java: JavaTable, expect: str) -> set[str]:
    """What was planted for us to `delete`, `keep` or `report`."""
    return {each["path"] for each in java.references["planted"] if each["expect"] == expect}


def orphans(java: JavaTable) -> set[str]:
    """What was planted to be deleted, and what a rollback left; marks of done partitions stay."""
    others = java.references["not_referenced_not_planted"]
    return expected(java, "delete") | {name for name in others if not name.endswith("_SUCCESS")}


@pytest.mark.parametrize("name", TABLES)
def test_orphans_are_found_and_nothing_else(java_tables: JavaWarehouses, name: str) -> None:
    java = java_tables.table(name)
    with plan_of(java) as plan:
        assert planned(java, plan) == orphans(java)
        assert plan.total_files == sum(plan.files.values()) == len(orphans(java))


@pytest.mark.parametrize("name", TABLES)
def test_names_that_paimon_does_not_write_are_told(java_tables: JavaWarehouses, name: str) -> None:
    java = java_tables.table(name)
    with plan_of(java) as plan:
        told = names_in(java, plan.unknown.paths)
        assert plan.unknown.count == len(told)
    assert expected(java, "report") <= told <= expected(java, "report") | expected(java, "keep")


@pytest.mark.parametrize("name", ANSWERED)
def test_java_deletes_the_same_and_files_that_are_not_its_own(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    theirs = set(java.answer("orphans")["real_local"]["deleted"])
    assert theirs - expected(java, "keep") == orphans(java)


@pytest.mark.parametrize("name", ["branched", "pk_decoupled", "rolled_back", "odd_parts", "blob"])
def test_what_was_planned_goes_and_all_else_stays(
    java_tables: JavaWarehouses, tmp_path: Path, name: str
) -> None:
    java = java_tables.table(name).copy_to(tmp_path)
    before = java.stored()
    outcome = clean(java)
    assert before - java.stored() == orphans(java)
    assert outcome.tally.deleted == len(orphans(java))
    assert not clean(java).tally.found


def test_partitions_and_buckets_that_are_emptied_or_were_go(
    java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    java = java_tables.table("append_dt").copy_to(tmp_path)
    empty = {"dt=1970-01-01", "dt=1971-01-01", "dt=2021-03-01/bucket-11"}
    for folder in [*java.folder.glob("dt=19*/bucket-*"), *(java.folder / name for name in empty)]:
        long_ago = folder.stat().st_mtime - OLD.total_seconds()
        os.utime(folder, (long_ago, long_ago))
    (java.folder / "dt=1972-01-01").mkdir()
    clean(java)
    assert not any((java.folder / name).exists() for name in [*empty, "dt=1969-01-01"])
    assert (java.folder / "dt=1972-01-01").is_dir()
    assert (java.folder / "dt=2021-03-01").is_dir()
