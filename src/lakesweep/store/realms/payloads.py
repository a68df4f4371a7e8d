"""Bulk reads of objects as bytes, whatever their type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from lakesweep.store.backends.rows import ObjectRow, RowFields
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
        for page, rows in self.pages(ids):
            firsts = {row[0]: row for row in rows}
            for row in map(firsts.get, page):
                yield None if row is None else self.payload(row)

    def pages(self, ids: Sequence[int]) -> Iterator[tuple[Sequence[int], Sequence[RowFields]]]:
        """The ids page by page, with the first rows of those that exist, in any order."""
        rest = iter(ids)
        while page := list(islice(rest, self._pages.rows)):
            rows = self._realm.backend.fetch_first_rows(self._realm.name, page)
            self._pages.learn(len(rows), sum(len(row[-1]) for row in rows))
            yield page, rows

    def payload(self, row: RowFields) -> Payload | None:
        """The object of a first row; None if the object is gone meanwhile."""
        number, _, name, created_at, token, _ = row
        first = parse_row(ObjectRow(*row))
        if first.parts == 1:
            return Payload(number, name, created_at, token, first.piece)
        # One at a time: a page of such objects might not fit in memory.
        [stored] = self._objects.fetch_many([number], UnknownObject, {number: first.parts})
        if stored is None:
            return None
        value = stored.value
        return Payload(number, value.type, stored.created_at, stored.token, value.payload)
