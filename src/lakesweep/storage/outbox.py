"""Gathers the rows of marking into batches of a useful size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.address import identity
from lakesweep.storage.covers import collapse, cover
from lakesweep.storage.file_hashes import file_hashes, hash_columns
from lakesweep.storage.marks import (
    FACTS,
    LIVE,
    PROBLEMS,
    SOURCES,
    USAGE,
    Facts,
    Marked,
    What,
)
from lakesweep.storage.tolerance import Problem

_ROWS = 1 << 15
_FOLDERS_OF_A_SOURCE = 8
_FILE = ("path", "kind", "size_bytes")


class Pointer(NamedTuple):
    """A row of POINTERS."""

    source: int
    h1: int
    h2: int
    path: str
    kind: str
    size_bytes: int | None
    entries: int | None
    location: str | None
    access: int


class _Use:
    """The files of one kind that a source names."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.folders: set[str] = set()

    def add(self, paths: pa.Array, sizes: pa.Array) -> None:
        self.files += len(paths)
        self.bytes += pc.sum(sizes).as_py() or 0
        self.folders |= cover(paths, _FOLDERS_OF_A_SOURCE)


class Outbox:
    """What was found in sources, one after the other, until it is taken as batches.

    For each source: any number of `add` and `lead`, then once `close` or `fail`.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._files: list[tuple[int, pa.RecordBatch]] = []
        self._closed: list[tuple[Pointer, int | None]] = []
        self._children: list[pa.RecordBatch] = []
        self._problems: list[tuple[str, str, str, int]] = []
        self._facts: list[tuple[int, str]] = []
        self._uses: dict[str, _Use] = {}
        self._usage: list[tuple[int, str, int, int, tuple[str, ...]]] = []

    def add(self, source: int, files: pa.RecordBatch) -> None:
        """Files that a source names, by the columns `path`, `kind` and `size_bytes`."""
        if not files.num_rows:
            return
        self._files.append((source, files.select(_FILE)))
        self._rows += files.num_rows
        kinds = files["kind"].unique().to_pylist()
        for kind in kinds:
            rows = files if len(kinds) == 1 else files.filter(pc.equal(files["kind"], kind))
            self._uses.setdefault(kind, _Use()).add(rows["path"], rows["size_bytes"])

    def lead(self, children: pa.RecordBatch) -> None:
        """Rows of CHILDREN."""
        if children.num_rows:
            self._children.append(children)
            self._rows += children.num_rows

    def state(self, source: int, facts: Facts) -> None:
        """What a root says of itself."""
        self._facts.append((source, msgspec.json.encode(facts).decode()))

    def close(self, pointer: Pointer, entries: int) -> None:
        """A source was read to its end; `pointer` tells its kind and size as they are."""
        self._end(pointer, entries)

    def fail(self, pointer: Pointer, *problems: Problem) -> None:
        """A source could not be read, or not trusted. It stays alive all the same."""
        for problem in problems:
            row = (pointer.path, problem.state.value, problem.reason, pointer.source)
            self._problems.append(row)
        self._end(pointer, None)

    def _end(self, pointer: Pointer, entries: int | None) -> None:
        own = self._uses.setdefault(pointer.kind, _Use())
        own.files += 1
        own.bytes += pointer.size_bytes or 0
        own.folders.add(identity(pointer.path).rpartition("/")[0] + "/")
        for kind, use in self._uses.items():
            folders = collapse(use.folders, _FOLDERS_OF_A_SOURCE)
            self._usage.append((pointer.source, kind, use.files, use.bytes, folders))
        self._uses = {}
        self._closed.append((pointer, entries))
        self._rows += 1

    def take_if_full(self) -> Iterator[Marked]:
        """What was found, if it is worth a batch."""
        if self._rows >= _ROWS:
            yield from self.take()

    def take(self) -> Iterator[Marked]:
        """What was found since it was last taken."""
        batches = {
            What.LIVE: [*self._live_files(), *self._live_sources()],
            What.SOURCE: self._sources(),
            What.CHILD: self._children,
            What.PROBLEM: _batch(PROBLEMS, self._problems),
            What.USAGE: _batch(USAGE, self._usage),
            What.FACT: _batch(FACTS, self._facts),
        }
        self._rows = 0
        self._files, self._closed, self._children = [], [], []
        self._problems, self._facts, self._usage = [], [], []
        for what, found in batches.items():
            if found:
                yield Marked(what, pa.concat_batches(found))

    def _live_files(self) -> Iterator[pa.RecordBatch]:
        if not self._files:
            return
        files = pa.concat_batches([batch for _, batch in self._files])
        counts = [batch.num_rows for _, batch in self._files]
        sources = np.repeat(np.array([source for source, _ in self._files], np.int64), counts)
        h1, h2 = hash_columns(file_hashes(files["path"]))
        columns = [h1, h2, *files.columns, pa.array(sources)]
        yield pa.RecordBatch.from_arrays(columns, schema=LIVE)

    def _live_sources(self) -> list[pa.RecordBatch]:
        pointers = [pointer for pointer, _ in self._closed]
        return _batch(
            LIVE, [(p.h1, p.h2, p.path, p.kind, p.size_bytes, p.source) for p in pointers]
        )

    def _sources(self) -> list[pa.RecordBatch]:
        rows = [(p.source, p.path, p.kind, p.size_bytes, entries) for p, entries in self._closed]
        return _batch(SOURCES, rows)


def pointers_of(batch: pa.RecordBatch) -> Iterator[Pointer]:
    """The rows of POINTERS in a batch."""
    columns = (batch[name].to_pylist() for name in Pointer._fields)
    return map(Pointer._make, zip(*columns, strict=True))


def _batch(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> list[pa.RecordBatch]:
    if not rows:
        return []
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]
