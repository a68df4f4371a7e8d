"""One level of marking, whatever the format: read files on threads, decode them one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.marks.buffer import MarkBuffer, Pointer, pointers_of
from lakesweep.marks.unreadable import READ_ERRORS, Problem, ReadFailure, problem_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.stores import Keyring

if TYPE_CHECKING:
    from lakesweep.marks.columns import MarkBatch

Read = TypeVar("Read")

#: Bytes of files that are held before their turn comes.
_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class FileLevel(ABC, Generic[Read]):
    """Reads files on threads, because stores take their time, and decodes them one by one."""

    keyring: Keyring
    workers: int = 16

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MarkBatch]:
        outbox = MarkBuffer()
        for pointer, found in self._found(batches):
            try:
                if isinstance(found, LakesweepError):
                    raise found
                for _ in self.mark(outbox, pointer, found):
                    yield from outbox.take_if_full()
            except LakesweepError as error:
                outbox.fail(pointer, _problem(pointer, error))
            yield from outbox.take_if_full()
        yield from outbox.take()

    @abstractmethod
    def read(self, pointer: Pointer) -> Read:
        """What there is to read; on any thread."""

    @abstractmethod
    def mark(self, outbox: MarkBuffer, pointer: Pointer, found: Read) -> Iterator[None]:
        """Put all that the file names, then the file itself; yields whenever something is there."""

    def _found(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Pointer, Read | LakesweepError]]:
        def attempt(pointer: Pointer) -> tuple[Pointer, Read | LakesweepError]:
            try:
                return pointer, self.read(pointer)
            except LakesweepError as error:
                return pointer, error

        # What is reached alike is read together: each access is opened once.
        grouped = (batch.sort_by("access") for batch in batches)
        pointers = (pointer for batch in grouped for pointer in pointers_of(batch))
        return map_ordered(
            attempt,
            pointers,
            workers=self.workers,
            weigh=lambda pointer: pointer.size_bytes or 0,
            most=_AHEAD_BYTES,
        )


def _problem(pointer: Pointer, error: LakesweepError) -> Problem:
    """What is wrong, with the file itself unless another one was read for its sake."""
    if not isinstance(error, READ_ERRORS):
        return Problem(pointer.path, ReadFailure.UNAVAILABLE, error.message)
    found = problem_of(error)
    # A store may spell the address in another way.
    is_own = _file_name(error.path) == _file_name(pointer.path)
    return replace(found, path=pointer.path) if is_own else found


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
