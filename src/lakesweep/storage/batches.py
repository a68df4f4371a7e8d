"""Streams of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


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
