"""Bulk reads of objects as bytes, whatever their type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

from lakesweep.store.backends.rows import ObjectRow, row_keys
from lakesweep.store.objects.object_types import UnknownObject
from lakesweep.store.objects.objects import parse_row
from lakesweep.store.realms.realm import Realm

#: Reads take about this many bytes at a time, and at most this many rows.
PAGE_BYTES = 8 * 2**20
PAGE_ROWS = 1_000
_FIRST_PAGE_ROWS = 100


class Payload(NamedTuple):
    """One object, as stored."""

    id: int
    type: str
    created_at: int
    token: int | None
    payload: bytes


class PageSizer:
    """Chooses the number of rows per request from the size of the previous ones."""

    def __init__(self) -> None:
        self.rows = _FIRST_PAGE_ROWS

    def learn(self, rows: int, size_bytes: int) -> None:
        """Record that this many rows had this many bytes."""
        if rows:
            fitting = PAGE_BYTES * rows // max(size_bytes, 1)
            self.rows = max(1, min(PAGE_ROWS, 2 * self.rows, fitting))


class Payloads:
    """Reads objects of one realm from its database, a few megabytes at a time."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self._objects = realm.stored.undecoded()
        self._pages = PageSizer()

    def read(self, ids: Sequence[int]) -> Iterator[Payload | None]:
        """The objects of these ids, in order; None for each missing one."""
        rest = iter(ids)
        while page := list(islice(rest, self._pages.rows)):
            keys = row_keys(zip(page, repeat(0)))
            rows = self._realm.backend.fetch(self._realm.name, keys)
            self._pages.learn(len(rows), sum(len(row.value) for row in rows.values()))
            for row in map(rows.get, keys):
                yield None if row is None else self._payload(row)

    def _payload(self, row: ObjectRow) -> Payload | None:
        first = parse_row(row)
        if first.parts == 1:
            return Payload(row.id, row.type, row.created_at, row.token, first.piece)
        # One at a time: a page of such objects might not fit in memory.
        [stored] = self._objects.fetch_many([row.id], UnknownObject, {row.id: first.parts})
        if stored is None:
            return None
        value = stored.value
        return Payload(row.id, value.type, stored.created_at, stored.token, value.payload)
