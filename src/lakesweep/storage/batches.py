"""Streams of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def keep_memory_flat() -> None:
    """Make Arrow take its memory from the system for the rest of the process.

    Its own allocators keep a heap for each thread, and many threads that pass batches on let these
    heaps grow with the number of batches, although hardly anything is alive.
    """
    pa.set_memory_pool(pa.system_memory_pool())


def gather(batches: Iterable[pa.RecordBatch], rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in fewer batches: small ones are put together."""
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
