"""One level of marking, for any format: which files it reads, and what each of them names.

A level has two halves: `read` fetches a file, `mark` decodes it and hands over what it names.
Called as a kernel, a level turns pointers into mark rows. `marks/walk.py` drives the same two
halves to list what a single root reaches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.marks.buffer import MarkBuffer
from lakesweep.marks.columns import MarkBatch, RootFacts
from lakesweep.marks.pointers import Pointer, pointers_of
from lakesweep.marks.unreadable import READ_ERRORS, Problem, ReadFailure, problem_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.stores import Keyring
from lakesweep.untrusted.failures import read_failure

Item = TypeVar("Item")
Read = TypeVar("Read")

#: Bytes of files that may be read ahead.
_AHEAD_BYTES = 64 << 20


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
