"""Fault injection: a backend that fails on purpose, for tests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from lakesweep.clock import Clock
from lakesweep.errors import UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.backend import (
    SCAN_ROWS,
    Backend,
    BackendCapabilities,
    write_then_swap,
)
from lakesweep.store.backends.rows import (
    EVERY_ID,
    HeadPage,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowFields,
    RowKey,
    first_keys,
)
from lakesweep.store.backends.wrapper import BackendWrapper

Answer = TypeVar("Answer")
Row = TypeVar("Row")

#: A late write takes effect after this many further calls.
LATE_CALLS = 3
SLOW_SECONDS = 0.001


class BackendFault(StrEnum):
    """What happens to one call.

    Reads support REFUSE, SLOW and STALE; the faults of writes refuse them.
    """

    NONE = "none"
    REFUSE = "refuse"  # an honest error: nothing changed
    LOSE_REQUEST = "lose request"  # nothing changed, but the caller cannot know
    LOSE_ANSWER = "lose answer"  # it was done, but the caller cannot know
    HALVE = "halve"  # half of the rows were done (none of one), but the caller cannot know
    LATE = "late"  # the caller cannot know, and it is done later
    SLOW = "slow"
    STALE = "stale"  # a read misses the last write


class FaultyBackend(BackendWrapper):
    """Passes each call to another backend through the fault that `choose` returns for it.

    `choose` is given the method name. STALE reads of references return the state before their last
    swap, those of objects lack the rows of the last write.
    """

    def __init__(
        self, backend: Backend, choose: Callable[[str], BackendFault], clock: Clock
    ) -> None:
        super().__init__(backend)
        self._choose = choose
        self._clock = clock
        self._lock = threading.Lock()
        self._late: deque[tuple[int, Callable[[], object]]] = deque()
        self._calls = 0
        self._before: dict[tuple[str, str], Reference] = {}
        self._fresh: dict[str, frozenset[RowKey]] = {}

    @property
    def capabilities(self) -> BackendCapabilities:
        return replace(self._backend.capabilities, atomic_commits=False)

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        return self._write(
            "insert_reference", partial(self._backend.insert_reference, realm, reference)
        )

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        insert = partial(self._backend.insert_references, realm)
        self._write_many("insert_references", insert, references)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        fault = self._read("fetch_references")
        found = self._backend.fetch_references(realm, names)
        if fault is BackendFault.STALE:
            return {name: self._before.get((realm, name), found[name]) for name in found}
        return found

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        return self._write("update_reference", partial(self._swap, realm, new, expected))

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        return write_then_swap(self, realm, rows, new, expected)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        delete = partial(self._backend.delete_reference, realm, expected)
        return self._write("delete_reference", delete)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        fault = self._read("fetch")
        unseen = self._fresh.get(realm, frozenset()) if fault is BackendFault.STALE else frozenset()
        return self._backend.fetch(realm, [key for key in keys if key not in unseen])

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        return list(self.fetch(realm, first_keys(ids)).values())

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        self._write_many("write", partial(self._backend.write, realm), rows)
        self._fresh[realm] = frozenset(row.key for row in rows)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        self._write_many("delete", partial(self._backend.delete, realm), keys)

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        return self._write("insert_row", partial(self._backend.insert_row, realm, row))

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        change = partial(self._backend.update_row, realm, row, expected_token)
        return self._write("update_row", change)

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        change = partial(self._backend.delete_row, realm, key, expected_token)
        return self._write("delete_row", change)

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        delete = partial(self._backend.delete_expected, realm)
        half = list(expected)[: len(expected) // 2]
        return self._write("delete_expected", partial(delete, expected), partial(delete, half))

    def realms(self) -> Sequence[str]:
        self._read("realms")
        return self._backend.realms()

    def scan_references(self, realm: str) -> Iterator[Reference]:
        self._read("scan_references")
        return self._backend.scan_references(realm)

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        self._read("scan_rows")
        return self._backend.scan_rows(realm, span)

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        self._read("scan_pages")
        return self._backend.scan_pages(realm, span, rows)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        return self._write("delete_realm", partial(self._backend.delete_realm, realm, guard))

    def land_late_writes(self) -> None:
        """Let all pending writes take effect."""
        while self._late:
            self._late.popleft()[1]()

    def _swap(self, realm: str, new: Reference, expected: Reference) -> bool:
        swapped = self._backend.update_reference(realm, new, expected)
        if swapped:
            self._before[realm, new.name] = expected
        return swapped

    def _read(self, method: str) -> BackendFault:
        fault = self._next(method)
        if fault not in {BackendFault.NONE, BackendFault.STALE}:
            raise UnreachableError(f"{method}: injected fault")
        return fault

    def _write_many(
        self, method: str, write: Callable[[Collection[Row]], None], rows: Collection[Row]
    ) -> None:
        half = list(rows)[: len(rows) // 2]
        self._write(method, partial(write, rows), partial(write, half))

    def _write(
        self,
        method: str,
        write: Callable[[], Answer],
        write_half: Callable[[], object] = lambda: None,
    ) -> Answer:
        match self._next(method):
            case BackendFault.NONE | BackendFault.STALE:
                return write()
            case BackendFault.REFUSE:
                raise UnreachableError(f"{method}: injected fault")
            case BackendFault.LOSE_ANSWER:
                write()
            case BackendFault.HALVE:
                write_half()
            case BackendFault.LATE:
                with self._lock:
                    self._late.append((self._calls + LATE_CALLS, write))
            case _:
                pass
        raise UnknownOutcomeError(f"{method}: injected fault")

    def _next(self, method: str) -> BackendFault:
        """The fault of this call, after all late writes that are due before it."""
        with self._lock:
            self._calls += 1
            due = []
            while self._late and self._late[0][0] <= self._calls:
                due.append(self._late.popleft()[1])
        for write in due:
            write()
        fault = self._choose(method)
        if fault is BackendFault.SLOW:
            self._clock.sleep(SLOW_SECONDS)
            return BackendFault.NONE
        return fault
