"""Paimon on Spark: a mixed lake, and orphans by the command's own way."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.clock import SystemClock
from lakesweep.config import IcebergCatalogRoot, LakeSection, PaimonWarehouseRoot
from lakesweep.paimon.model.warehouse import find_tables
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_sweeps import sweeper_of
from tests.planned import Desk, deletes
from tests.small_lake import SmallLake

DAY = timedelta(days=1)
#: With branches, tags, changelogs, deletion vectors, indexes, packs and partitions.
NAMES = ("branched", "pk_dv", "pk_decoupled", "index_in_data", "blob")


@pytest.fixture
def tables(java_tables: JavaWarehouses, tmp_path: Path) -> list[JavaTable]:
    return [java_tables.table(name).copy_to(tmp_path / "paimon") for name in NAMES]


def engine_of(spark: SparkSession, stores: Stores) -> SparkSweepEngine:
    """Which has even a few files of a level read by tasks."""
    return SparkSweepEngine(spark, ExecutorAccess(stores, parts=2), few_rows=0)


def orphans_of(tables: list[JavaTable]) -> set[str]:
    return {
        f"{java.folder}/{each['path']}"
        for java in tables
        for each in java.references["planted"]
        if each["expect"] == "delete"
    }


def stored(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def test_a_mixed_lake_loses_its_orphans_and_nothing_else(
    spark: SparkSession, tables: list[JavaTable], tmp_path: Path
) -> None:
    small = SmallLake.make(tmp_path / "small", orphans=5)
    uri = f"sqlite:///{small.folder}/catalog.db"
    roots = (
        PaimonWarehouseRoot(type="paimon-warehouse", path=str(tmp_path / "paimon")),
        IcebergCatalogRoot(
            type="iceberg-catalog", name="lake", properties={"type": "sql", "uri": uri}
        ),
    )
    locations = (str(tmp_path / "paimon"), str(small.warehouse))
    stores = Stores()
    section = LakeSection(locations=locations, roots=roots)
    desk = Desk(stores, section, clock=SystemClock(), plans=str(tmp_path / "plans"))
    plan = desk.plan(engine_of(spark, stores), grace=DAY)
    assert not plan.document.roots.incomplete
    assert deletes(plan) == orphans_of(tables) | small.orphans()
    before = stored(tmp_path / "paimon") | small.files()
    applied = desk.apply(plan, SparkSweepEngine(spark, ExecutorAccess(stores, parts=2)))
    assert applied.report.failed == 0
    assert before - stored(tmp_path / "paimon") - small.files() == deletes(plan)


def test_orphans_go_as_in_one_process(
    spark: SparkSession, tables: list[JavaTable], tmp_path: Path
) -> None:
    folder = tmp_path / "paimon"
    broken = tables[0].folder.with_name("broken")
    shutil.copytree(tables[1].folder, broken)
    for path in broken.glob("manifest/manifest-list-*"):
        path.unlink()
    stores, clock = Stores(), SystemClock()
    sweeper = replace(
        sweeper_of(stores, str(folder), clock),
        engine=SparkSweepEngine(spark, ExecutorAccess(stores, parts=2)),
        plans=str(tmp_path / "plans"),
    )
    before = stored(folder)
    found = sweeper.plan(find_tables(stores, str(folder), clock).tables, clock.now() - DAY)
    assert [failure.table for failure in found.failures] == [f"{broken}/"]
    planned = {path for batch in found.batches() for path in batch["path"].to_pylist()}
    assert stored(folder) == before
    outcome = OrphanOutcome()
    with outcome.outcomes:
        sweeper.remove(found, outcome, DeleteRate())
        told = [row for batch in outcome.outcomes.batches() for row in batch.to_pylist()]
    assert {row["outcome"] for row in told} == {"deleted"}
    assert before - stored(folder) == {row["path"] for row in told} == planned
    assert planned == orphans_of(tables)
