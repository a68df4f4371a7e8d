"""Deduplicate a stream of files in bounded memory.

Files are compared by a 128-bit hash of their identity, kept in a table in memory. When the
table is full, files that are not in it spill to disk, partitioned by other bits of the hash,
and each partition is deduplicated in the same way. Files that fit into memory keep the order
in which they were first seen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.storage.address import identities
from lakesweep.storage.file_batches import coalesce_batches

MEMORY_BYTES = 256 * 1024 * 1024
_PARTS = 32
_MAX_DEPTH = 8


def unique_files(
    batches: Iterable[pa.RecordBatch], *, memory_bytes: int = MEMORY_BYTES, depth: int = 0
) -> Iterator[pa.RecordBatch]:
    """The rows whose `path` names a file that no earlier row named, in any spelling."""
    seen = HashSet()
    rows = iter(batches)
    for batch in rows:
        new = seen.add(path_hashes(batch))
        yield batch.filter(pa.array(new))
        if seen.nbytes > memory_bytes and depth < _MAX_DEPTH:
            break
    yield from _spilled(rows, seen, memory_bytes, depth)


def path_hashes(batch: pa.RecordBatch) -> Hashes:
    """The 128-bit hashes of the identities of a batch's paths."""
    return hash128(identities(batch["path"]))


def _spilled(
    rows: Iterator[pa.RecordBatch], seen: HashSet, memory_bytes: int, depth: int
) -> Iterator[pa.RecordBatch]:
    first = next(rows, None)
    if first is None:
        return
    with tempfile.TemporaryDirectory(prefix="lakesweep-unique-") as folder:
        spill = _Spill(Path(folder), first.schema, depth)
        for batch in _chain(first, rows):
            hashes = path_hashes(batch)
            unknown = ~seen.contains(hashes)
            spill.write(batch.filter(pa.array(unknown)), hashes[0][unknown])
        # Free the table before the partitions build their own.
        del seen
        for part in spill.parts():
            yield from unique_files(part, memory_bytes=memory_bytes, depth=depth + 1)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class _Spill:
    """Rows on disk, partitioned by the bits of the hash for this depth."""

    def __init__(self, folder: Path, schema: pa.Schema, depth: int) -> None:
        self._shift = np.uint64(5 * depth)
        self._paths = [folder / f"{part}.arrow" for part in range(_PARTS)]
        self._writers = [pa.ipc.new_stream(str(path), schema) for path in self._paths]

    def write(self, batch: pa.RecordBatch, hashes: np.ndarray) -> None:
        parts = (hashes >> self._shift) % np.uint64(_PARTS)
        for part in np.unique(parts):
            self._writers[part].write_batch(batch.filter(pa.array(parts == part)))

    def parts(self) -> Iterator[Iterator[pa.RecordBatch]]:
        for writer in self._writers:
            writer.close()
        for path in self._paths:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                yield coalesce_batches(reader)
            path.unlink()
