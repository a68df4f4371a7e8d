"""The files that manifests name, on disk once there are many, grouped by their hashes.

Rows of one file are always in the same part, so parts can be compared one by one: memory does not
grow with the number of files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.sweep.columns import HASHES

#: A file that a manifest names: the hash of its identity, and the number of the manifest.
ROWS = pa.schema(
    [
        *HASHES,
        pa.field("manifest", pa.int32(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
    ]
)
_PARTS = 32
_ROWS_IN_MEMORY = 1 << 19


class HashedRows:
    """Rows that are added and read any number of times. Leaving the context removes them."""

    def __init__(self, rows_in_memory: int = _ROWS_IN_MEMORY) -> None:
        self._most = rows_in_memory
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spills = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what is on disk."""
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, manifest: int, files: pa.RecordBatch) -> None:
        """Files (FILE_SCHEMA) that a manifest names."""
        batch = manifest_rows(manifest, files)
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._count >= self._most:
            self.spill()

    def parts(self, *others: HashedRows) -> Iterator[pa.Table]:
        """All rows, with those of others, in parts that have no file in common."""
        everything = (self, *others)
        if not any(rows.is_on_disk for rows in everything):
            yield pa.concat_tables([rows.waiting for rows in everything])
            return
        for rows in everything:
            rows.spill()
        for part in range(_PARTS):
            yield pa.concat_tables([table for rows in everything for table in rows.part(part)])

    @property
    def is_on_disk(self) -> bool:
        """Whether some rows are on disk."""
        return self._folder is not None

    @property
    def waiting(self) -> pa.Table:
        """The rows in memory."""
        return pa.Table.from_batches(self._waiting, ROWS)

    def part(self, part: int) -> Iterator[pa.Table]:
        """The rows of one part that are on disk."""
        for spill in range(self._spills):
            yield pa.ipc.open_file(pa.memory_map(str(self._path(part, spill)))).read_all()

    def spill(self) -> None:
        """Put all rows on disk."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lakesweep-upkeep-")
        rows = self.waiting
        parts = rows["h1"].to_numpy().view(np.uint64) % np.uint64(_PARTS)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for part in range(_PARTS):
            path = str(self._path(part, self._spills))
            with pa.ipc.new_file(path, ROWS, options=options) as writer:
                writer.write_table(rows.filter(pa.array(parts == part)))
        self._spills += 1
        self._waiting, self._count = [], 0

    def _path(self, part: int, spill: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{part}-{spill}.arrow"


def manifest_rows(manifest: int, files: pa.RecordBatch) -> pa.RecordBatch:
    """Files (FILE_SCHEMA) that a manifest names, as ROWS."""
    numbers = pa.repeat(pa.scalar(manifest, pa.int32()), files.num_rows)
    columns = [*hash_columns(file_hashes(files["path"])), numbers, files["path"], files["kind"]]
    return pa.RecordBatch.from_arrays([*columns, files["size_bytes"]], schema=ROWS)
