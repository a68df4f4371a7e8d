"""One job that uses all that Spark does for us, wherever Spark runs.

    python -m tests.spark.job '{"section": {"master": "local[2]"}, "lake": "/…", "target": "/…",
        "repository": "/…"}'

It runs in a process of its own, as a command would; what it found comes out as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.lakefs.stored import StoredRepository
from lakesweep.lifecycle.engine import LifecycleEngine
from lakesweep.lifecycle.job import find_addresses
from lakesweep.lifecycle.spark_engine import SparkLifecycle
from lakesweep.lifecycle.spec import Spec
from lakesweep.spark import datasets
from lakesweep.spark.access import Access
from lakesweep.spark.kernels import map_batches
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session
from tests.lakefs_repositories import NOW
from tests.lifecycle_runs import policy_of, results_of

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
class Found:
    """What the job found: rows by path, and where executors have the package from."""

    rows: dict[str, list[Any]]
    packages: list[str]
    committed: int
    error: str
    expired: list[str]


def count_letters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How long each path is, and the file that this package came from."""
    import lakesweep

    for batch in batches:
        columns = [batch[name] for name in ("path", "size_bytes", "modified")]
        letters = pc.utf8_length(batch["path"]).cast(pa.int64())
        package = pa.repeat(lakesweep.__file__, batch.num_rows)
        yield pa.RecordBatch.from_arrays([*columns, letters, package], schema=COUNTED)


def run(spark: SparkSession, access: Access, lake: str, target: str, repository: str) -> Found:
    listing = spark.read.format("lakesweep.listing").load(lake)
    counted = map_batches(listing, count_letters, COUNTED)
    written = datasets.write(counted, target, access, COUNTED)
    frame = datasets.read(spark, written, access)
    rows = frame.selectExpr(
        "path", "size_bytes", "unix_micros(modified) as modified", "letters", "package"
    ).collect()
    return Found(
        rows={row.path: [row.size_bytes, row.modified, row.letters] for row in rows},
        packages=sorted({row.package for row in rows}),
        committed=written.rows,
        error=_error(spark),
        expired=expire(_lifecycle(spark, access), repository),
    )


def _lifecycle(spark: SparkSession, access: Access) -> SparkLifecycle:
    """Nothing is so little that it is done on the driver; two tasks are enough."""
    return SparkLifecycle(spark, replace(access, parts=2), few_entries=0, few_ranges=0)


def expire(engine: LifecycleEngine, namespace: str) -> list[str]:
    """The addresses of a lakeFS repository that go by a policy."""
    repository = StoredRepository(engine.stores, namespace)
    work = f"{namespace}-{uuid4()}"
    spec = Spec(
        *(repository, policy_of(POLICY), "run", NOW, work, f"{work}/lc"), without_staging=True
    )
    found = find_addresses(spec, engine, repository.read_refs(), None)
    return sorted(results_of(found))


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
        found = run(spark, register(spark), given["lake"], given["target"], given["repository"])
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
