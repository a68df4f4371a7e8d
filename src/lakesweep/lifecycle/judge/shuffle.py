"""Pack rows for a shuffle: rows with the same bucket, as Arrow, in one value.

Spark then moves a few values per task, whatever they hold, and never takes a row apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Rows of a table that have the same number here belong together.
Keys: TypeAlias = Callable[[pa.Table], npt.NDArray[np.uint64]]

#: `rows` is a stream of Arrow; all rows of one `bucket` are to meet.
PACKED = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("rows", pa.binary(), nullable=False),
    ]
)

#: How many rows a task holds before it packs them.
_ROWS_AT_ONCE = 1 << 18
_NARROW = 1 << 16
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(batches: Iterable[pa.RecordBatch], keys: Keys, buckets: int) -> Iterator[pa.RecordBatch]:
    """Rows as PACKED, in a number of buckets."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _ROWS_AT_ONCE:
            yield _pack(pa.Table.from_batches(waiting), keys, buckets)
            waiting, count = [], 0
    if count:
        yield _pack(pa.Table.from_batches(waiting), keys, buckets)


def _pack(rows: pa.Table, keys: Keys, buckets: int) -> pa.RecordBatch:
    numbers = keys(rows) % np.uint64(buckets)
    # Numbers of 16 bits are sorted without comparing them.
    narrow = numbers.astype(np.uint16 if buckets <= _NARROW else np.int32)
    ordered = rows.take(pa.array(np.argsort(narrow, kind="stable")))
    found, counts = np.unique(narrow, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    values = [
        _stream(ordered.slice(start, count)) for start, count in zip(starts, counts, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(found, pa.int32()), pa.array(values)], schema=PACKED
    )


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in PACKED."""
    for batch in batches:
        for value in batch["rows"]:
            with pa.ipc.open_stream(value.as_buffer()) as reader:
                yield from reader
