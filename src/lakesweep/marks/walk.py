"""Walk from a root to every file that it reaches, in this process, by the levels of marking.

What a walk yields may be deleted, where what marking yields is kept. So a walk is stricter:

- A source counts whole or not at all. Nothing that a damaged manifest names is trusted: only
  the manifest itself is yielded, and the caller's `Tolerance` decides whether to go on.
- Children come before parents. A deletion in this order can be interrupted and repeated from
  the metadata that is still there.

Each source is read once, however many others lead to it. A file that several sources name is
yielded several times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.marks.columns import POINTERS, RootFacts
from lakesweep.marks.file_level import FileLevel, Levels, map_sources, source_problem
from lakesweep.marks.pointers import DistinctPointers, Pointer, pointers_of
from lakesweep.marks.unreadable import READ_ERRORS, Problem, Tolerance
from lakesweep.storage.file_batches import file_batch
from lakesweep.storage.stores import Keyring
from lakesweep.untrusted.limits import read_failure

Read = TypeVar("Read")


@dataclass
class SourceFiles:
    """What one source names, the source itself last. A `MarkCollector`.

    Files are batches of FILE_SCHEMA; children are rows of CHILDREN.
    """

    files: list[pa.RecordBatch] = field(default_factory=list)
    children: list[pa.RecordBatch] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, source: int, files: pa.RecordBatch) -> None:
        del source  # there is one
        self.files.append(files)

    def lead(self, children: pa.RecordBatch) -> None:
        if children.num_rows:
            self.children.append(children)

    def state(self, source: int, facts: RootFacts) -> None:
        """Only marking needs to know."""

    def close(self, pointer: Pointer, entries: int) -> None:
        del entries
        self.files.append(file_batch(pointer.kind, [(pointer.path, pointer.size_bytes)]))

    def fail(self, pointer: Pointer, *problems: Problem) -> None:
        self.problems += problems
        self.close(pointer, 0)


def mark_source(level: FileLevel[Read], pointer: Pointer, read: Read) -> SourceFiles:
    """What a source that was fetched names; raises where it cannot be decoded to its end."""
    found = SourceFiles()
    for _ in level.mark(found, pointer, read):
        pass
    return found


def read_source(level: FileLevel[Any], pointer: Pointer) -> SourceFiles:
    """What a source names; of one that cannot be read to its end, only itself and the problem."""
    try:
        return mark_source(level, pointer, level.read(pointer))
    except Exception as error:
        failure = read_failure(pointer.path, error)
        if not isinstance(failure, READ_ERRORS):
            raise
        found = SourceFiles()
        found.fail(pointer, source_problem(pointer, failure))
        return found


@dataclass
class Walk:
    """One walk. `enter` the roots, `run` the levels, `finish`.

    Sources that lead to others are held back until `finish`; all else is yielded at once, so that
    memory grows with the number of sources, not of files.
    """

    keyring: Keyring
    tolerance: Tolerance
    workers: int = 16
    _held: list[list[pa.RecordBatch]] = field(default_factory=list)
    _pointers: defaultdict[str, DistinctPointers] = field(
        default_factory=lambda: defaultdict(DistinctPointers)
    )

    def files(self, levels: Levels) -> Iterator[pa.RecordBatch]:
        """All files that the entered sources reach through these levels."""
        yield from self.run(levels)
        yield from self.finish()

    def enter(self, found: SourceFiles) -> None:
        """Go on from a source: hold back its files, and remember where it leads."""
        for problem in found.problems:
            self.tolerance.meet(problem)
        for children in found.children:
            self._lead(children.select(POINTERS.names))
        self._held.append(found.files)

    def run(self, levels: Levels) -> Iterator[pa.RecordBatch]:
        """Read levels in order. A level sees all pointers of its kind that those above led to."""
        for spec in levels:
            yield from self.read(spec.level(self.keyring), self.take_pointers(spec.kind))

    def read(self, level: FileLevel[Any], pointers: Iterable[Pointer]) -> Iterator[pa.RecordBatch]:
        """Read sources on threads, in order."""
        for found in map_sources(partial(read_source, level), pointers, self.workers):
            self.enter(found)
            if not found.children:  # nothing below it is still to come
                yield from self._held.pop()

    def take_pointers(self, kind: str) -> Iterator[Pointer]:
        """The pointers of a kind that are still to be read, each file once."""
        return pointers_of(self._pointers.pop(kind, DistinctPointers()).merge())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What was held back, those first that were entered last."""
        while self._held:
            yield from self._held.pop()

    def _lead(self, pointers: pa.RecordBatch) -> None:
        for kind in pointers["kind"].unique().to_pylist():
            self._pointers[kind].add(pointers.filter(pc.equal(pointers["kind"], kind)))
