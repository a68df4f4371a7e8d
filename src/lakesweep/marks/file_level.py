"""One level of marking, for any format: which files it reads, and what each of them names.

A level has two halves: `read` fetches a file, `mark` decodes it and hands over what it names.
Called as a kernel, a level turns pointers into mark rows. `marks/walk.py` drives the same two
halves to list what a single root reaches.

The rows are collected into batches of a useful size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError
from lakesweep.marks.columns import (
    FACTS,
    LIVE,
    PROBLEMS,
    SOURCES,
    USAGE,
    MarkBatch,
    MarkKind,
    RootFacts,
)
from lakesweep.marks.covers import Cover, FolderUsage, add_covers, collapse_cover, cover
from lakesweep.marks.pointers import Pointer, pointers_of
from lakesweep.marks.unreadable import READ_ERRORS, Problem, ReadFailure, problem_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identity
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.stores import Keyring
from lakesweep.untrusted.documents import LARGEST_LONG
from lakesweep.untrusted.limits import read_failure

Item = TypeVar("Item")
Read = TypeVar("Read")
#: Bytes of files that may be read ahead.
_AHEAD_BYTES = 64 << 20
_ROWS = 1 << 15
#: The most folders per source and kind.
_FOLDERS = 8
_FILE = ("path", "kind", "size_bytes")


class MarkCollector(Protocol):
    """Receives what sources name.

    For each source: any number of `add`, `lead` and `state`, then once `close` or `fail`.
    """

    def add(self, source: int, files: pa.RecordBatch) -> None:
        """Files that a source names, by the columns `path`, `kind` and `size_bytes`."""
        ...

    def lead(self, children: pa.RecordBatch) -> None:
        """Sources to read next: rows of CHILDREN."""
        ...

    def state(self, source: int, facts: RootFacts) -> None:
        """What a root says about itself."""
        ...

    def close(self, pointer: Pointer, entries: int) -> None:
        """A source was read to its end; `pointer` has its actual kind and size."""
        ...

    def fail(self, pointer: Pointer, *problems: Problem) -> None:
        """A source could not be read, or not be trusted. It stays alive all the same."""
        ...


@dataclass(frozen=True)
class FileLevel(ABC, Generic[Read]):
    """Reads files on threads, because stores are slow, and decodes them one by one.

    An unreadable file raises nothing: it becomes a problem row. What it named before it failed may
    already be in the output, which is harmless: in marking those files are kept.
    """

    keyring: Keyring
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MarkBatch]:
        outbox = MarkBuffer()
        for pointer, found in self._found(batches):
            if isinstance(found, LakesweepError):
                outbox.fail(pointer, source_problem(pointer, found))
            else:
                yield from self._mark(outbox, pointer, found)
            yield from outbox.take_if_full()
        yield from outbox.take()

    def _mark(self, outbox: MarkBuffer, pointer: Pointer, found: Read) -> Iterator[MarkBatch]:
        portions = self.mark(outbox, pointer, found)
        while True:
            try:
                next(portions)
            except StopIteration:
                return
            # Whatever a decoder raises, this file alone is unreadable: one bad file must not end
            # the marking of every other root.
            except Exception as error:
                outbox.fail(pointer, source_problem(pointer, read_failure(pointer.path, error)))
                return
            yield from outbox.take_if_full()

    @abstractmethod
    def read(self, pointer: Pointer) -> Read:
        """Fetch the file; called on any thread."""

    @abstractmethod
    def mark(self, outbox: MarkCollector, pointer: Pointer, found: Read) -> Iterator[None]:
        """Hand over what the file names, then the file itself; yields after each portion."""

    def _found(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Pointer, Read | LakesweepError]]:
        def attempt(pointer: Pointer) -> tuple[Pointer, Read | LakesweepError]:
            try:
                return pointer, self.read(pointer)
            except Exception as error:
                return pointer, read_failure(pointer.path, error)

        # Pointers with the same access are read together, so that each access is opened once.
        grouped = (batch.sort_by("access") for batch in batches)
        pointers = (pointer for batch in grouped for pointer in pointers_of(batch))
        return map_sources(attempt, pointers, self.workers)


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """One level of a format: the kind of pointers that it reads, and its reader.

    The files of an `immutable` level never change, and neither does what they name: a file that
    was read once, by this run or an earlier one, is not read again.
    """

    kind: str
    level: Callable[[Keyring], FileLevel[Any]]
    immutable: bool = False


#: From the roots' own files down. A level may lead to any later one; the first reads the roots' own
#: files, whatever their kinds.
Levels: TypeAlias = tuple[LevelSpec, ...]


def map_sources(
    work: Callable[[Pointer], Item], pointers: Iterable[Pointer], workers: int
) -> Iterator[Item]:
    """`work` on threads, in order, with a bound on the bytes that are read ahead."""
    return map_ordered(
        work,
        pointers,
        workers=workers,
        weigh=lambda pointer: pointer.size_bytes or 0,
        most=_AHEAD_BYTES,
    )


def source_problem(pointer: Pointer, error: LakesweepError) -> Problem:
    """The problem with a source, or with another file that was read on its behalf."""
    if not isinstance(error, READ_ERRORS):
        return Problem(pointer.path, ReadFailure.UNAVAILABLE, error.message)
    found = problem_of(error)
    # A store may spell the address in another way.
    is_own = _file_name(error.path) == _file_name(pointer.path)
    return replace(found, path=pointer.path) if is_own else found


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


class MarkBuffer:
    """A `MarkCollector` that makes batches of mark rows."""

    def __init__(self) -> None:
        self._rows = 0
        self._files: list[tuple[int, pa.RecordBatch]] = []
        self._ended: list[tuple[Pointer, int | None]] = []
        self._children: list[pa.RecordBatch] = []
        self._problems: list[tuple[str, str, str, int]] = []
        self._facts: list[tuple[int, str]] = []
        #: By source and kind, until the source ends.
        self._covers: defaultdict[int, defaultdict[str, list[Cover]]]
        self._covers = defaultdict(lambda: defaultdict(list))

    def add(self, source: int, files: pa.RecordBatch) -> None:
        """Files that a source names, by the columns `path`, `kind` and `size_bytes`."""
        if files.num_rows:
            self._files.append((source, files.select(_FILE)))
            self._rows += files.num_rows

    def lead(self, children: pa.RecordBatch) -> None:
        """Rows of CHILDREN."""
        if children.num_rows:
            self._children.append(children)
            self._rows += children.num_rows

    def state(self, source: int, facts: RootFacts) -> None:
        """What a root says about itself."""
        self._facts.append((source, msgspec.json.encode(facts).decode()))

    def close(self, pointer: Pointer, entries: int) -> None:
        """A source was read to its end; `pointer` has its actual kind and size."""
        self._end(pointer, entries)

    def fail(self, pointer: Pointer, *problems: Problem) -> None:
        """A source could not be read, or not be trusted. It stays alive all the same."""
        for problem in problems:
            row = (problem.path, problem.state.value, problem.reason, pointer.source)
            self._problems.append(row)
        self._end(pointer, None)

    def take_if_full(self) -> Iterator[MarkBatch]:
        """The rows collected so far, if they are worth a batch."""
        if self._rows >= _ROWS:
            yield from self.take()

    def take(self) -> Iterator[MarkBatch]:
        """The rows collected since the last call."""
        found = [
            (MarkKind.LIVE, self._live_files()),
            (MarkKind.LIVE, self._live_sources()),
            (MarkKind.SOURCE, self._sources()),
            (MarkKind.CHILD, pa.concat_batches(self._children) if self._children else None),
            (MarkKind.PROBLEM, _batch(PROBLEMS, self._problems)),
            (MarkKind.USAGE, _batch(USAGE, list(self._usage()))),
            (MarkKind.FACT, _batch(FACTS, self._facts)),
        ]
        self._rows = 0
        self._files, self._ended, self._children = [], [], []
        self._problems, self._facts = [], []
        yield from (MarkBatch(what, rows) for what, rows in found if rows is not None)

    def _end(self, pointer: Pointer, entries: int | None) -> None:
        folder = identity(pointer.path).rpartition("/")[0] + "/"
        own = {folder: FolderUsage(1, pointer.size_bytes or 0)}
        self._covers[pointer.source][pointer.kind].append(own)
        self._ended.append((pointer, entries))
        self._rows += 1

    def _live_files(self) -> pa.RecordBatch | None:
        if not self._files:
            return None
        files = pa.concat_batches([batch for _, batch in self._files])
        counts = [batch.num_rows for _, batch in self._files]
        self._count(files, counts)
        sources = np.repeat(np.array([source for source, _ in self._files], np.int64), counts)
        h1, h2 = hash_columns(file_hashes(files["path"]))
        columns = [h1, h2, *files.columns, pa.array(sources)]
        return pa.RecordBatch.from_arrays(columns, schema=LIVE)

    def _count(self, files: pa.RecordBatch, counts: list[int]) -> None:
        """Add files to the usage of their sources; usually all are of one kind."""
        kinds = files["kind"].unique()
        if len(kinds) == 1:
            self._count_kind(kinds[0].as_py(), files, counts)
            return
        for kind in kinds.to_pylist():
            is_kind = pc.equal(files["kind"], kind)
            chosen = is_kind.cast(pa.int64()).to_numpy()
            per_run = np.add.reduceat(chosen, _bounds(counts)[:-1]).tolist()
            self._count_kind(kind, files.filter(is_kind), per_run)

    def _count_kind(self, kind: str, files: pa.RecordBatch, counts: list[int]) -> None:
        covers = cover(files["path"], files["size_bytes"], _bounds(counts), _FOLDERS)
        for (source, _), found in zip(self._files, covers, strict=True):
            if found:
                self._covers[source][kind].append(found)

    def _usage(self) -> Iterator[tuple[int, str, str, int, int]]:
        for pointer, _ in self._ended:
            for kind, covers in self._covers.pop(pointer.source, {}).items():
                for folder, amount in collapse_cover(add_covers(covers), _FOLDERS).items():
                    # Forged sizes may add up to more than a column holds. This is statistics.
                    size_bytes = max(0, min(amount.bytes, LARGEST_LONG))
                    yield pointer.source, kind, folder, amount.files, size_bytes

    def _live_sources(self) -> pa.RecordBatch | None:
        pointers = [pointer for pointer, _ in self._ended]
        return _batch(
            LIVE, [(p.h1, p.h2, p.path, p.kind, p.size_bytes, p.source) for p in pointers]
        )

    def _sources(self) -> pa.RecordBatch | None:
        rows = [(p.source, p.path, p.kind, p.size_bytes, entries) for p, entries in self._ended]
        return _batch(SOURCES, rows)


def _bounds(counts: list[int]) -> list[int]:
    return [0, *accumulate(counts)]


def _batch(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch | None:
    if not rows:
        return None
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
