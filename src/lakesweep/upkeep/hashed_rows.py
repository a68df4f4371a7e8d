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

from lakesweep.hashing import Hashes
from lakesweep.storage.file_identity import file_hashes

#: A file that a manifest names: the hash of its identity, and the number of the manifest.
ROWS = pa.schema(
    [
        pa.field("low", pa.uint64(), nullable=False),
        pa.field("high", pa.uint64(), nullable=False),
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
        low, high = file_hashes(files["path"])
        numbers = pa.repeat(pa.scalar(manifest, pa.int32()), files.num_rows)
        columns = [pa.array(low), pa.array(high), numbers, files["path"], files["kind"]]
        batch = pa.RecordBatch.from_arrays([*columns, files["size_bytes"]], schema=ROWS)
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._count >= self._most:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """All rows, in parts that have no file in common."""
        if self._folder is None:
            yield pa.Table.from_batches(self._waiting, ROWS)
            return
        self._spill()
        for part in range(_PARTS):
            paths = [self._path(part, spill) for spill in range(self._spills)]
            tables = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in paths]
            yield pa.concat_tables(tables)

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lakesweep-upkeep-")
        rows = pa.Table.from_batches(self._waiting, ROWS)
        parts = rows["low"].to_numpy() % np.uint64(_PARTS)
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


def hashes_in(rows: pa.Table) -> Hashes:
    """The hashes of rows."""
    return rows["low"].to_numpy(), rows["high"].to_numpy()
