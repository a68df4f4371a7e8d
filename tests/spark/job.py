"""One job that uses all that Spark does for us, wherever Spark runs.

    python -m tests.spark.job '{"section": {"master": "local[2]"}, "lake": "/…", "target": "/…"}'

It runs in a process of its own, as a command would; what it found comes out as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.spark import datasets
from lakesweep.spark.access import Access
from lakesweep.spark.kernels import map_batches
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session

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


def count_letters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How long each path is, and the file that this package came from."""
    import lakesweep

    for batch in batches:
        columns = [batch[name] for name in ("path", "size_bytes", "modified")]
        letters = pc.utf8_length(batch["path"]).cast(pa.int64())
        package = pa.repeat(lakesweep.__file__, batch.num_rows)
        yield pa.RecordBatch.from_arrays([*columns, letters, package], schema=COUNTED)


def run(spark: SparkSession, access: Access, lake: str, target: str) -> Found:
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
    )


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
        found = run(spark, register(spark), given["lake"], given["target"])
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
