"""A list of files on disk: written once, counted on the way, read back any number of times.

What is going to be deleted is written down in full before the first delete, so the totals that a
user agrees to and the files that go are the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.files import FILE_SCHEMA


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
        """Everything that was added, in order. Nothing can be added any more."""
        self._writer.close()
        with pa.OSFile(self._path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader
