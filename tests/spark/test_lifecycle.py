"""Lifecycle runs on Spark: the same answers as the oracle's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakesweep.errors import UnreadableError
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.judge.spark_engine import SparkLifecycleEngine
from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.lakefs import AS_OF
from tests.lakefs_recorded import RecordedRepository
from tests.lakefs_repositories import NOW, Model, entry, write_repository
from tests.lakefs_working_server import working_server
from tests.lifecycle_models import grow, models, policies
from tests.lifecycle_oracle import expired
from tests.lifecycle_plans import Office
from tests.lifecycle_runs import going, judge, policy_of, results_of, run, sweep
from tests.processes import scratch_folder
from tests.random_tests import examples

#: Without looking for the simplest case: each takes seconds here, and kernels are tested without.
_FEW = examples(2, phases=[Phase.explicit, Phase.generate])


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkLifecycleEngine:
    """Nothing is so little that it is done on the driver."""
    return SparkLifecycleEngine(
        spark, ExecutorAccess(Stores(), parts=2), few_entries=0, few_ranges=0
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder("lifecycle") as path:
        yield path


def test_random_repositories(engine: SparkLifecycleEngine) -> None:
    @_FEW
    @given(models(20), policies())
    def check(model: Model, policy: LifecyclePolicy) -> None:
        with scratch_folder("lifecycle") as folder:
            found = run(model, policy, folder, engine=engine)
            assert going(found) == expired(model, policy)
            assert results_of(found).keys() == going(found)

    check()


def test_incremental_runs(engine: SparkLifecycleEngine) -> None:
    @_FEW
    @given(st.data(), policies())
    def check(data: st.DataObject, policy: LifecyclePolicy) -> None:
        model, gone = data.draw(models(8)), set()
        with scratch_folder("lifecycle") as folder:
            for days in (9, 0):
                grow(data.draw, model, days, 6)
                now = NOW - timedelta(days=days)
                options = {"selection": Selection.INCREMENTAL, "grace": timedelta(0)}
                found = run(model, policy, folder, now=now, engine=engine, **options)
                gone |= going(found)
                assert gone >= expired(model, policy, now) >= going(found)
                sweep(found, folder, now)

    check()


def test_a_missing_range_ends_the_run(engine: SparkLifecycleEngine, folder: Path) -> None:
    model = Model()
    model.commit("main", {"foo/bar/a": entry("data/1", 50)}, days=50)
    id_ = next(iter(model.commits.values())).ranges[0].id
    policy = policy_of({"r": {"prefix": "foo/bar", "days": 20}})
    repository = write_repository(model, folder / "repo")
    (folder / "repo" / "_lakefs" / id_).unlink()
    with pytest.raises(UnreadableError, match="a commit needs it"):
        judge(repository, policy, folder, engine=engine)


def test_paths_are_taken_off_heads(spark: SparkSession, folder: Path) -> None:
    with working_server(folder, now=AS_OF) as server:
        for number in range(40):
            server.put("main", f"logs/{number}", days=100)
        server.put("main", "keep", days=100)
        server.commit("main", days=100)
        office = Office(cast(RecordedRepository, server.opened()))
        access = ExecutorAccess(Stores(), parts=2)
        office.engine = SparkSweepEngine(spark, access, few_rows=0, few_live=0)
        office.judges = SparkLifecycleEngine(spark, access, few_entries=0, few_ranges=0)
        rules = {"logs": {"prefix": "logs", "days": 30, "expire_heads": True}}

        first = office.apply(office.plan(rules))
        assert (first.report.taken_off, first.report.waiting) == (40, 40)
        assert set(server.shown("main")) == {"keep"}
        office.clock.sleep(60)
        assert office.apply(office.plan(rules)).report.deleted == 40
        assert server.readable()
        home = f"{office.repository.namespace.location}/_lakefs/retention/lc"
        addresses = spark.read.parquet(f"{home}/addresses")
        waiting = addresses.groupBy("waits_for_heads").count().collect()
        assert {row[0]: row[1] for row in waiting} == {True: 40, False: 40}
        assert spark.read.parquet(f"{home}/policy").count() == 2
