"""The Arrow schemas of files and of delete outcomes, and streams of such batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pyarrow as pa

#: Earlier times are not real file times: the clock was never set, or seconds were written as
#: milliseconds. The age of such a file is unknown.
FIRST_TIME = datetime(2000, 1, 1, tzinfo=UTC)

#: One stored or referenced file. `path` is a full address; the rest is null where unknown.
FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
    ]
)

#: The result of deleting one file; `outcome` is a value of `Outcome`.
OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("size_bytes", pa.int64()),
    ]
)


def file_batch(kind: str, files: Iterable[tuple[str, int | None]]) -> pa.RecordBatch:
    """A batch of files of one kind, from paths and sizes."""
    rows = list(files)
    return batch_of(
        kind,
        pa.array([path for path, _ in rows], pa.string()),
        pa.array([size for _, size in rows], pa.int64()),
    )


def batch_of(kind: str, paths: pa.Array, sizes: pa.Array | None = None) -> pa.RecordBatch:
    """A batch of files of one kind, from arrays; only sizes may be null."""
    count = len(paths)
    return pa.RecordBatch.from_arrays(
        [
            paths,
            pa.repeat(kind, count),
            pa.nulls(count, pa.int64()) if sizes is None else sizes,
            pa.nulls(count, FILE_SCHEMA.field("modified").type),
            pa.nulls(count, pa.string()),
        ],
        schema=FILE_SCHEMA,
    )


def use_system_allocator() -> None:
    """Make Arrow allocate from the system for the rest of the process.

    Arrow's own allocators keep a heap per thread. When many threads hand batches on, these heaps
    grow with the number of batches, although hardly any memory is live.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def coalesce_batches(
    batches: Iterable[pa.RecordBatch], rows: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, with small batches combined."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
