"""Expiring snapshots with lists and manifests read on Spark: the same as in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.operations.interaction import EngineName
from lakesweep.operations.upkeep.expiry_result import IcebergExpiryResult
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.bucket_in_folder import BucketInFolder
from tests.expiry_lake import ExpiryCase, expiry_cases
from tests.iceberg_expiries import BUCKETS, AtticApp, fill, ref_of
from tests.unit.upkeep.test_snapshot_retention import arguments_of

#: With files of every kind: shared ones, deletes, deletion vectors, manifests in old metadata.
CASES = ["shop.source.head-only", "shop.vectors.head-only", "shop.v1.head-only"]


def case_named(name: str) -> ExpiryCase:
    return next(case for case in expiry_cases() if case.name == f"attic.{name}")


def expired(
    folder: Path, case: ExpiryCase, spark: SparkSession | None, *, dry_run: bool
) -> tuple[IcebergExpiryResult, set[str], list[str]]:
    """The result, what is stored afterwards, and which engines were opened."""
    buckets = {f"s3://{each}": BucketInFolder(folder / each) for each in BUCKETS}
    for each in BUCKETS:
        fill(each, buckets[f"s3://{each}"])
    attic, used = AtticApp(folder, case.now_ms, {**buckets}), list[str]()

    @contextmanager
    def engine(name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        used.append(name)
        assert spark is not None
        access = ExecutorAccess(attic.app.stores, parts=2)
        yield SparkSweepEngine(spark, access, few_rows=0, few_live=0, few_pointers=0)

    attic.app.__dict__["engine"] = engine
    result = attic.expire(
        ref_of(case),
        arguments_of(case),
        overrides=frozenset({"outside"}),
        engine=EngineName.LOCAL if spark is None else EngineName.SPARK,
        dry_run=dry_run,
    )
    left = {path for path in attic.stored() if not path.endswith(".metadata.json")}
    assert not list((folder / ".lakesweep").glob("plans/work-*"))
    return result, left, used


@pytest.mark.parametrize("name", CASES)
def test_the_same_snapshots_and_files_expire(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    case = case_named(name)
    here, left_here, _ = expired(tmp_path / "a", case, None, dry_run=False)
    there, left_there, used = expired(tmp_path / "b", case, spark, dry_run=False)
    assert used == ["spark"]
    assert left_there == left_here
    assert there.expired_snapshots == here.expired_snapshots
    assert there.deleted == here.deleted
    assert sum(there.deleted.values()) > 1
    assert there.failures == here.failures == []


def test_a_dry_run_shows_the_same(spark: SparkSession, tmp_path: Path) -> None:
    case = case_named(CASES[0])
    here, _, _ = expired(tmp_path / "a", case, None, dry_run=True)
    there, _, _ = expired(tmp_path / "b", case, spark, dry_run=True)
    assert there == here
