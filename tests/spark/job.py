"""One job that uses all that Spark does for us, wherever Spark runs.

    python -m tests.spark.job '{"section": {"master": "local[2]"}, "lake": "/…", "target": "/…",
        "repositories": "/…"}'

It runs in a process of its own, as a command would; what it found comes out as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.lifecycle.judge.spark_engine import SparkLifecycleEngine
from lakesweep.spark import datasets
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import map_batches
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import Office, recorded
from tests.planned import reasons

POLICY = {"all": {"prefix": "*", "days": 40, "allow_empty_prefix": True}}
COUNTED = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
        pa.field("letters", pa.int64(), nullable=False),
        pa.field("package", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Expired:
    """What a policy said of the objects of a repository, and which of them are gone."""

    reasons: dict[str, str]
    gone: list[str]
    deleted: int
    kept_by_remark: int


@dataclass(frozen=True)
class Found:
    """What the job found: rows by path, and where executors have the package from."""

    rows: dict[str, list[Any]]
    packages: list[str]
    committed: int
    error: str
    expired: Expired


def count_letters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How long each path is, and the file that this package came from."""
    import lakesweep

    for batch in batches:
        columns = [batch[name] for name in ("path", "size_bytes", "modified")]
        letters = pc.utf8_length(batch["path"]).cast(pa.int64())
        package = pa.repeat(lakesweep.__file__, batch.num_rows)
        yield pa.RecordBatch.from_arrays([*columns, letters, package], schema=COUNTED)


def run(
    spark: SparkSession, access: ExecutorAccess, lake: str, target: str, repositories: str
) -> Found:
    listing = spark.read.format("lakesweep.listing").load(lake)
    counted = map_batches(listing, count_letters, COUNTED)
    written = datasets.write(counted, f"{target}/rows", access, COUNTED)
    frame = datasets.read(spark, written, access)
    rows = frame.selectExpr(
        "path", "size_bytes", "unix_micros(modified) as modified", "letters", "package"
    ).collect()
    return Found(
        rows={row.path: [row.size_bytes, row.modified, row.letters] for row in rows},
        packages=sorted({row.package for row in rows}),
        committed=written.rows,
        error=_error(spark),
        expired=expire(_office(spark, access, repositories, target)),
    )


def _office(spark: SparkSession, access: ExecutorAccess, repositories: str, folder: str) -> Office:
    """Nothing is so little that it is done on the driver; two tasks are enough."""
    few = replace(access, parts=2)
    office = open_office(repositories, folder)
    office.engine = SparkSweepEngine(spark, few, few_rows=0, few_pointers=0, few_live=0)
    office.judges = SparkLifecycleEngine(spark, few, few_entries=0, few_ranges=0)
    return office


def open_office(repositories: str, folder: str) -> Office:
    """A copy of a lakeFS repository in a folder."""
    return Office(recorded(RealRepositories(Path(repositories)), "random-1", Path(folder)))


def expire(office: Office) -> Expired:
    """Let objects of a lakeFS repository go by a policy, one of which somebody takes up again."""
    plan = office.plan(POLICY)
    begin = f"{office.repository.real.folder}/"
    said = {path.removeprefix(begin): reason for path, reason in reasons(plan).items()}
    before = office.stored()
    office.repository.stage("main", "again", min(key for key in said if said[key] == "expired"))
    applied = office.apply(plan)
    gone = before - office.stored()
    return Expired(said, sorted(gone), applied.report.deleted, applied.kept_by_remark)


def _error(spark: SparkSession) -> str:
    """How a mistake that only an executor can make is told."""
    try:
        with open_session(SparkSection(), given=spark):
            spark.read.format("lakesweep.listing").load("/nowhere/at/all").collect()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def main() -> None:
    given = json.loads(sys.argv[1])
    with open_session(SparkSection.model_validate(given["section"])) as spark:
        places = (given[name] for name in ("lake", "target", "repositories"))
        found = run(spark, register(spark), *places)
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
