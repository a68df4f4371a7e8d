"""Plans by policies on Spark: the same verdicts as in one process, and the same end."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakesweep.lifecycle.spark_engine import SparkLifecycle
from lakesweep.spark.access import Access
from lakesweep.sweep.spark_engine import SparkEngine
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import Office, recorded
from tests.planned import deletes, reasons

RULES = {"all": {"prefix": "*", "days": 40, "allow_empty_prefix": True}}


def test_executors_judge_and_delete_what_one_process_would(
    lakefs_repositories: RealRepositories, tmp_path: Path, spark: SparkSession
) -> None:
    office = Office(recorded(lakefs_repositories, "random-1", tmp_path))
    local = office.plan(RULES)
    access = Access(office.stores, {}, parts=2)
    office.engine = SparkEngine(spark, access, few_rows=0, few_pointers=0, few_live=0)
    office.judges = SparkLifecycle(spark, access, few_entries=0, few_ranges=0)

    plan = office.plan(RULES)

    assert reasons(plan) == reasons(local)
    doomed, before = deletes(plan), office.stored()
    assert doomed
    key = min(doomed).removeprefix(f"{office.repository.real.folder}/")
    office.repository.stage("main", "again", key)
    applied = office.apply(plan)
    assert applied.kept_by_remark == 1
    assert len(before - office.stored()) == len(doomed) - 1
