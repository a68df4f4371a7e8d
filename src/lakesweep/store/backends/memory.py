"""A database in the memory of one process."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from lakesweep.store.backends.backend import SCAN_ROWS, BackendCapabilities
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
    split_span,
    whole_pages,
)

Key = TypeVar("Key")
Row = TypeVar("Row")


class MemoryBackend:
    """Keeps all rows in dictionaries and loses them with the process."""

    def __init__(self) -> None:
        self._references: dict[str, dict[str, Reference]] = defaultdict(dict)
        self._rows: dict[str, dict[RowKey, ObjectRow]] = defaultdict(dict)
        self._lock = threading.Lock()
        self.capabilities = BackendCapabilities(
            durable=False,
            deletes_realms=True,
            max_value_bytes=sys.maxsize,
            batch_rows=sys.maxsize,
            splits_scans=True,
            scans_wait=False,
            atomic_commits=True,
        )

    def init_schema(self) -> None:
        """Nothing to create."""

    def check_schema(self) -> None:
        """Nothing that could be missing."""

    def close(self) -> None:
        """Nothing to close."""

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        with self._lock:
            return _insert(self._references[realm], reference.name, reference)

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        for reference in references:
            self.insert_reference(realm, reference)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        with self._lock:
            stored = self._references[realm]
            return {name: stored[name] for name in names if name in stored}

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        with self._lock:
            matches = _is_same(self._references[realm].get(new.name), expected)
            if matches:
                self._references[realm][new.name] = new
            return matches

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        with self._lock:
            matches = _is_same(self._references[realm].get(new.name), expected)
            if matches:
                self._rows[realm].update((row.key, row) for row in rows)
                self._references[realm][new.name] = new
            return matches

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        with self._lock:
            matches = _is_same(self._references[realm].get(expected.name), expected)
            if matches:
                del self._references[realm][expected.name]
            return matches

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        with self._lock:
            rows = self._rows[realm]
            return {key: rows[key] for key in keys if key in rows}

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        return list(self.fetch(realm, first_keys(ids)).values())

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        with self._lock:
            self._rows[realm].update((row.key, row) for row in rows)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        with self._lock:
            for key in keys:
                self._rows[realm].pop(key, None)

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        with self._lock:
            return _insert(self._rows[realm], row.key, row)

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        with self._lock:
            matches = self._has_token(realm, row.key, expected_token)
            if matches:
                self._rows[realm][row.key] = row
            return matches

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        with self._lock:
            matches = self._has_token(realm, key, expected_token)
            if matches:
                del self._rows[realm][key]
            return matches

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        with self._lock:
            rows = self._rows[realm]
            same = [head for head in expected if _is_as_scanned(rows, head)]
            for head in same:
                del rows[RowKey(head.id, head.part)]
            return len(same)

    def realms(self) -> Sequence[str]:
        with self._lock:
            tables = (*self._references.items(), *self._rows.items())
            return sorted({realm for realm, rows in tables if rows}, key=str.encode)

    def scan_references(self, realm: str) -> Iterator[Reference]:
        with self._lock:
            references = list(self._references[realm].values())
        yield from references

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        keys = self._sorted_keys(realm)
        for key in keys[bisect_left(keys, RowKey(span.first)) :]:
            if key.id > span.last:
                return
            row = self._rows[realm].get(key)
            if row is not None:
                yield ObjectHead(row.id, row.part, row.type, row.created_at, row.token)

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        return whole_pages(self.scan_rows(realm, span), rows)

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        keys = self._sorted_keys(realm) or [RowKey(0)]
        return split_span(keys[0].id, keys[-1].id, count)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        with self._lock:
            matches = guard is None or self._is_unmoved(guard)
            if matches:
                self._references.pop(realm, None)
                self._rows.pop(realm, None)
            return matches

    def _is_unmoved(self, guard: ReferenceGuard) -> bool:
        stored = self._references[guard.realm].get(guard.reference.name)
        return _is_same(stored, guard.reference)

    def _has_token(self, realm: str, key: RowKey, token: int) -> bool:
        row = self._rows[realm].get(key)
        return row is not None and row.token == token

    def _sorted_keys(self, realm: str) -> list[RowKey]:
        with self._lock:
            return sorted(self._rows[realm])


def _insert(rows: dict[Key, Row], key: Key, row: Row) -> bool:
    absent = key not in rows
    if absent:
        rows[key] = row
    return absent


def _is_as_scanned(rows: Mapping[RowKey, ObjectRow], head: ObjectHead) -> bool:
    row = rows.get(RowKey(head.id, head.part))
    return row is not None and (row.created_at, row.token) == (head.created_at, head.token)


def _is_same(stored: Reference | None, expected: Reference) -> bool:
    return stored is not None and (stored.pointer, stored.version, stored.created_at) == (
        expected.pointer,
        expected.version,
        expected.created_at,
    )
