"""A temporary list of files on disk: written once, totalled on the way, read any number of times.

Files to delete are spooled completely before the first delete, so the totals that a user confirms
are those of the files that are deleted.

A stream of files is deduplicated in bounded memory. Files are compared by a 128-bit hash of their
identity, kept in a table in memory. When the table is full, files that are not in it spill to disk,
partitioned by other bits of the hash, and each partition is deduplicated in the same way. Files
that fit into memory keep the order in which they were first seen.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.storage.address import identities
from lakesweep.storage.file_batches import FILE_SCHEMA, coalesce_batches

Stage = TypeVar("Stage")
Kind = TypeVar("Kind", bound=str)
MEMORY_BYTES = 256 * 1024 * 1024
_PARTS = 32
_MAX_DEPTH = 8


class Spool:
    """Rows of one schema in a temporary file. Leaving the context removes it."""

    def __init__(self, schema: pa.Schema = FILE_SCHEMA) -> None:
        self._schema = schema
        self._folder = tempfile.TemporaryDirectory(prefix="lakesweep-")
        self._path = str(Path(self._folder.name) / "files.arrow")
        self._writer = pa.ipc.new_stream(self._path, schema)
        self.files = 0
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        self._writer.close()
        self._folder.cleanup()

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self.files += batch.num_rows
        self.size_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
        self._writer.write_batch(batch.select(self._schema.names).cast(self._schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything that was added, in order. Nothing can be added afterwards."""
        self._writer.close()
        with pa.OSFile(self._path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


class Spools(Generic[Stage, Kind]):
    """Spools that are processed one after another, with their contents counted by kind."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.files: Counter[Kind] = Counter()
        self.bytes: Counter[Kind] = Counter()
        self._spools = {stage: Spool() for stage in stages}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        for spool in self._spools.values():
            spool.close()

    @property
    def total_files(self) -> int:
        """The number of files."""
        return self.files.total()

    @property
    def total_bytes(self) -> int:
        """Their size, as far as known."""
        return self.bytes.total()

    def put(self, stage: Stage, kind: Kind, batch: pa.RecordBatch) -> None:
        """Append files of one kind to one of the spools."""
        self.files[kind] += batch.num_rows
        self.bytes[kind] += pc.sum(batch["size_bytes"]).as_py() or 0
        self._spools[stage].add(batch)

    def batches(self, stage: Stage) -> Iterator[pa.RecordBatch]:
        """The contents of one spool, read back."""
        return self._spools[stage].batches()


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
