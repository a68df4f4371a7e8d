"""A small job that shows whether executors can do what ours will ask of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from lakesweep.spark.kernels import map_batches

_COUNTED = pa.schema([("rows", pa.int64())])


def count_rows(spark: SparkSession, rows: int = 1000) -> int:
    """Let executors count some rows in Python."""
    counted = map_batches(spark.range(rows), _count, _COUNTED).collect()
    return sum(row["rows"] for row in counted)


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows]}, schema=_COUNTED)
