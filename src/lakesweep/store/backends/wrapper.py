"""The base class of wrappers around a backend, and the wrapper that rejects forked processes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from lakesweep.errors import StoreError
from lakesweep.store.backends.backend import SCAN_ROWS, Backend, BackendCapabilities
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
)


class BackendWrapper:
    """Passes every call on. A subclass may refuse calls on a realm in `_enter`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def _enter(self, realm: str) -> None:
        """Called before every call that reads or writes rows of a realm."""

    @property
    def capabilities(self) -> BackendCapabilities:
        return self._backend.capabilities

    def init_schema(self) -> None:
        self._backend.init_schema()

    def check_schema(self) -> None:
        self._backend.check_schema()

    def close(self) -> None:
        self._backend.close()

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        self._enter(realm)
        return self._backend.insert_reference(realm, reference)

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        self._enter(realm)
        self._backend.insert_references(realm, references)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        self._enter(realm)
        return self._backend.fetch_references(realm, names)

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        self._enter(realm)
        return self._backend.update_reference(realm, new, expected)

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        self._enter(realm)
        return self._backend.commit(realm, rows, new, expected)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        self._enter(realm)
        return self._backend.delete_reference(realm, expected)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        self._enter(realm)
        return self._backend.fetch(realm, keys)

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        self._enter(realm)
        return self._backend.fetch_first_rows(realm, ids)

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        self._enter(realm)
        self._backend.write(realm, rows)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        self._enter(realm)
        self._backend.delete(realm, keys)

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        self._enter(realm)
        return self._backend.insert_row(realm, row)

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        self._enter(realm)
        return self._backend.update_row(realm, row, expected_token)

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        self._enter(realm)
        return self._backend.delete_row(realm, key, expected_token)

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        self._enter(realm)
        return self._backend.delete_expected(realm, expected)

    def realms(self) -> Sequence[str]:
        return self._backend.realms()

    def scan_references(self, realm: str) -> Iterator[Reference]:
        self._enter(realm)
        return self._backend.scan_references(realm)

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        self._enter(realm)
        return self._backend.scan_rows(realm, span)

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        self._enter(realm)
        return self._backend.scan_pages(realm, span, rows)

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        self._enter(realm)
        return self._backend.split_rows(realm, count)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        self._enter(realm)
        return self._backend.delete_realm(realm, guard)


class ProcessOwner:
    """The process that opened a store.

    Locks that a thread held during a fork are never released in the child, and connections would be
    shared. So a child is refused before it touches either.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_me(self) -> bool:
        return self._process == os.getpid()

    def check(self) -> None:
        """StoreError in any other process."""
        if not self.is_me:
            raise StoreError(
                f"this store belongs to process {self._process}, from which this one was forked",
                hint="open a separate store in each process",
            )


class OwnedBackend(BackendWrapper):
    """Refuses every other process."""

    def __init__(self, backend: Backend, owner: ProcessOwner) -> None:
        super().__init__(backend)
        self._owner = owner

    def _enter(self, realm: str) -> None:
        del realm
        self._owner.check()

    def realms(self) -> Sequence[str]:
        self._owner.check()
        return super().realms()
