"""Expiring snapshots and dropping partitions with manifests read on Spark: the same as locally."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.tables.paimon_expiry import ExpireHistoryRequest, expire_snapshots
from lakesweep.operations.tables.paimon_partitions import DropPartitionsRequest, drop_partitions
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_states import live_files, newest

KEEP_ONE = RetentionOverrides(retain_min=1, retain_max=1)


class SessionApp(App):
    """An app that uses the session of the tests, and says whether it did."""

    spark: SparkSession
    used: list[str]

    @contextmanager
    def engine(self, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        assert name == "spark"
        self.used.append(name)
        yield SparkSweepEngine(self.spark, ExecutorAccess(self.stores, parts=2), few_rows=0)


@pytest.fixture
def app(spark: SparkSession, tmp_path: Path) -> SessionApp:
    app = SessionApp(Config(), folder=tmp_path)
    app.spark, app.used = spark, []
    return app


def _expire(app: App, java: JavaTable, engine: EngineName) -> tuple[object, set[str]]:
    request = ExpireHistoryRequest(
        table=str(java.folder), retention=KEEP_ONE, settle=timedelta(), engine=engine, threads=2
    )
    result = expire_snapshots(app, request, lambda _: None)
    assert result.is_complete
    return result.deleted, {name for name in java.stored() if not name.startswith("_lakesweep")}


#: With a branch that lost its tag, deletion vectors, changelogs that outlive snapshots, and packs.
@pytest.mark.parametrize("name", ["branch_hole", "pk_dv", "pk_decoupled", "blob"])
def test_the_same_snapshots_and_files_expire(
    app: SessionApp, java_tables: JavaWarehouses, tmp_path: Path, name: str
) -> None:
    here, there = (java_tables.table(name).copy_to(tmp_path / part) for part in ("a", "b"))
    before = set(here.stored())
    expired = _expire(app, here, EngineName.LOCAL)
    assert app.used == []
    assert _expire(app, there, EngineName.SPARK) == expired
    assert app.used == ["spark"]
    assert before - expired[1]


def _drop(app: App, java: JavaTable, engine: EngineName) -> tuple[object, object]:
    request = DropPartitionsRequest(str(java.folder), ("dt=2021-03-01",), engine=engine, threads=2)
    result = drop_partitions(app, request, lambda _: None)
    table = PaimonTable.open(Stores(), str(java.folder))
    state = newest(table)
    assert result.snapshot == state.id
    return result, (live_files(table, state), state.total_record_count, state.raw["commitKind"])


def test_the_same_partitions_are_dropped(
    app: SessionApp, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    here, there = (java_tables.table("append_dt").copy_to(tmp_path / part) for part in ("a", "b"))
    dropped = _drop(app, here, EngineName.LOCAL)
    assert _drop(app, there, EngineName.SPARK) == dropped
    assert app.used == ["spark"]
