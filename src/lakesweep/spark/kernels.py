"""Run Arrow kernels on executors.

A kernel is a function over batches, without Spark inside. Its input and output have the types
they would have in one process, whatever the session's time zone and settings; our own errors
arrive on the driver as they were raised.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Concatenate, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from lakesweep.spark.error_translation import tagging_errors
from lakesweep.storage.wrappers.run_load import report_loads

_TYPES: dict[pa.DataType, spark.DataType] = {
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.bool_(): spark.BooleanType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float64(): spark.DoubleType(),
    pa.timestamp("us", tz="UTC"): spark.TimestampType(),
    pa.list_(pa.string()): spark.ArrayType(spark.StringType()),
}
_ARROW = {kind: arrow for arrow, kind in reversed(_TYPES.items())}


def to_spark(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of Arrow batches; ValueError for a type that we do not use."""
    return spark.StructType([_spark_field(field) for field in schema])


def to_arrow(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame; ValueError for a type that we do not use."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def on_the_wire(schema: pa.Schema) -> pa.Schema:
    """The same columns in the types that Spark itself reads."""
    return to_arrow(to_spark(schema))


def _spark_field(field: pa.Field) -> spark.StructField:
    if field.type not in _TYPES:
        raise ValueError(
            f"no column of type {field.type} can be passed through Spark, such as {field.name}"
        )
    return spark.StructField(field.name, _TYPES[field.type], field.nullable)


def _arrow_field(field: spark.StructField) -> pa.Field:
    if field.dataType not in _ARROW:
        kind = field.dataType.simpleString()
        raise ValueError(
            f"no column of type {kind} can be stored in a dataset, such as {field.name}"
        )
    return pa.field(field.name, _ARROW[field.dataType], field.nullable)


Item = TypeVar("Item")
Batches = Iterator[pa.RecordBatch]
Kernel = Callable[Concatenate[Batches, ...], Batches]

#: Spark takes 32-bit offsets only, which may not suffice for larger batches of strings.
_MOST_ROWS = 1 << 16


def map_batches(
    frame: DataFrame,
    kernel: Kernel,
    schema: pa.Schema,
    /,
    *,
    most_tasks: int | None = None,
    **parameters: Any,
) -> DataFrame:
    """Run a kernel over each partition of a DataFrame; `schema` is what it yields.

    The kernel is called once per partition, and again, perhaps concurrently, if a task is repeated.
    It and its parameters are pickled. With `most_tasks`, no more of them run at once.
    """

    def run(batches: Batches) -> Batches:
        try:
            with tagging_errors():
                yield from to_wire(kernel(map(from_wire, batches), **parameters), wire)
        finally:
            report_loads()
        freeze_loaded_objects()

    wire = on_the_wire(schema)
    run.__name__ = getattr(kernel, "__name__", "kernel")  # what Spark shows
    if most_tasks is not None:
        frame = frame.coalesce(most_tasks)
    return frame.mapInArrow(run, to_spark(schema))


def map_items(
    spark: SparkSession,
    items: Sequence[Item],
    kernel: Callable[Concatenate[Item, ...], Batches],
    schema: pa.Schema,
    /,
    *,
    most_tasks: int | None = None,
    **parameters: Any,
) -> DataFrame:
    """Run a kernel over some items, one task per item unless `most_tasks` are fewer.

    Every task receives all items: they are addresses and numbers, not rows.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for place in batch["id"].to_pylist():
                yield from kernel(items[place], **parameters)

    run.__name__ = getattr(kernel, "__name__", "kernel")
    numbers = spark.range(0, len(items), 1, max(1, len(items)))
    return map_batches(numbers, run, schema, most_tasks=most_tasks)


@cache
def freeze_loaded_objects() -> None:
    """Once per process: exempt all loaded objects from garbage collection.

    Spark collects garbage after every task, and traversing all modules takes 30 ms each time.
    """
    gc.freeze()


def from_wire(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark with times in UTC instead of the time zone of the session."""
    fields = [_in_utc(field) for field in batch.schema]
    schema = pa.schema(fields)
    return batch if schema == batch.schema else batch.cast(schema)


def to_wire(batches: Iterable[pa.RecordBatch], wire: pa.Schema) -> Batches:
    """Batches as Spark reads them: columns by name, in its types, neither too large nor empty."""
    for batch in batches:
        chosen = batch.select(wire.names)
        for start in range(0, batch.num_rows, _MOST_ROWS):
            yield chosen.slice(start, _MOST_ROWS).cast(wire)


def _in_utc(field: pa.Field) -> pa.Field:
    if pa.types.is_timestamp(field.type) and field.type.tz not in {None, "UTC"}:
        return field.with_type(pa.timestamp(field.type.unit, tz="UTC"))
    if pa.types.is_large_string(field.type):
        return field.with_type(pa.string())
    return field


_COUNTED = pa.schema([("rows", pa.int64())])


def count_rows(spark: SparkSession, rows: int = 1000) -> int:
    """Count rows in Python on the executors."""
    counted = map_batches(spark.range(rows), _count, _COUNTED).collect()
    return sum(row["rows"] for row in counted)


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows]}, schema=_COUNTED)
