"""Arrow kernels on executors.

A kernel is a function over batches, without Spark inside. What it gets and gives has the types that
it would have in one process, whatever the session's time zone and settings are; errors of ours come
out on the driver as they were raised.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Concatenate, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakesweep.spark.errors import marking
from lakesweep.spark.schemas import on_the_wire, to_spark

Item = TypeVar("Item")
Batches = Iterator[pa.RecordBatch]
Kernel = Callable[Concatenate[Batches, ...], Batches]

#: The offsets of a larger batch of strings might not fit 32 bits, which is all that Spark takes.
_MOST_ROWS = 1 << 16


def map_batches(
    frame: DataFrame, kernel: Kernel, schema: pa.Schema, /, **parameters: Any
) -> DataFrame:
    """What a kernel makes of each partition of a DataFrame; `schema` is what it yields.

    The kernel is called once a partition, and may be called again or twice at the same time where a
    task is repeated. It and its parameters are pickled.
    """

    def run(batches: Batches) -> Batches:
        with marking():
            yield from to_wire(kernel(map(from_wire, batches), **parameters), wire)
        settle()

    wire = on_the_wire(schema)
    run.__name__ = getattr(kernel, "__name__", "kernel")  # what Spark shows
    return frame.mapInArrow(run, to_spark(schema))


def map_items(
    spark: SparkSession,
    items: Sequence[Item],
    kernel: Callable[Concatenate[Item, ...], Batches],
    schema: pa.Schema,
    /,
    **parameters: Any,
) -> DataFrame:
    """What a kernel yields for each of some items, one task an item.

    All items travel to every task: they are addresses and numbers, not rows.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for place in batch["id"].to_pylist():
                yield from kernel(items[place], **parameters)

    run.__name__ = getattr(kernel, "__name__", "kernel")
    numbers = spark.range(0, len(items), 1, max(1, len(items)))
    return map_batches(numbers, run, schema)


@cache
def settle() -> None:
    """Once a process: take what is loaded by now out of the rounds of the garbage collector.

    Spark collects garbage after every task, and to go through all modules takes 30 ms each time.
    """
    gc.freeze()


def from_wire(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark with moments in UTC, instead of the zone of the session."""
    fields = [_in_utc(field) for field in batch.schema]
    schema = pa.schema(fields)
    return batch if schema == batch.schema else batch.cast(schema)


def to_wire(batches: Iterable[pa.RecordBatch], wire: pa.Schema) -> Batches:
    """Batches as Spark reads them: the columns by name, in its types, not too large, not empty."""
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
