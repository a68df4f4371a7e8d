"""A temporary list of files on disk: written once, totalled on the way, read any number of times.

Files to delete are spooled completely before the first delete, so the totals that a user confirms
are those of the files that are deleted.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.file_batches import FILE_SCHEMA

Stage = TypeVar("Stage")
Kind = TypeVar("Kind", bound=str)


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
