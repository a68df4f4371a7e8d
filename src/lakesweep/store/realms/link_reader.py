"""Read many objects for their links: page by page, most of them without a Python object each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from lakesweep.errors import DamagedRowError, FormatError
from lakesweep.store.backends.rows import Ids, RowFields
from lakesweep.store.objects.row_format import whole_payload
from lakesweep.store.realms.link_scan import WHOLE, LinkRole, scan_links, scan_rows
from lakesweep.store.realms.payloads import PAGE_ROWS, Payload, Payloads
from lakesweep.store.realms.realm import Realm

#: A node may link to thousands of objects, so few nodes are read before those.
_PAGE_NODES = 8
#: Fewer rows are scanned sooner than the kernel is loaded.
QUICK_ROWS = 200


class LinkPage(NamedTuple):
    """Some objects of one role that were read, and everything they link to.

    `link_count` counts each link, also where several lead to one object. `payloads` are those
    objects that the caller asked for. `broken` are objects that are missing or cannot be read;
    they are not among `ids`. A commit has the `reference` in whose log it is.
    """

    role: LinkRole
    ids: Ids
    links: Mapping[LinkRole, Ids]
    link_count: int
    payloads: Sequence[Payload] = ()
    broken: Sequence[int] = ()
    reference: str | None = None

    def links_to(self, number: int) -> bool:
        """Whether one of the objects links to this one."""
        return any(bool(np.any(ids == number)) for ids in self.links.values())


class LinkReader(Protocol):
    """Reads objects of one realm for their links."""

    def most(self, role: LinkRole) -> int:
        """How many objects of a role are worth reading with one call."""
        ...

    def read(self, role: LinkRole, ids: Ids) -> Iterator[LinkPage]:
        """Read all of these objects, in pages of any size."""
        ...


@dataclass(frozen=True)
class LocalLinks:
    """Reads in this process. Pages have the payloads of these types, or of all if None."""

    realm: Realm
    types: Collection[str] | None = None
    _payloads: Payloads = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_payloads", Payloads(self.realm))

    def most(self, role: LinkRole) -> int:
        return PAGE_ROWS if role == WHOLE else _PAGE_NODES

    def read(self, role: LinkRole, ids: Ids) -> Iterator[LinkPage]:
        for wanted, rows in self._payloads.pages(ids.tolist()):
            yield self._page(role, wanted, rows)

    def _page(self, role: LinkRole, wanted: Sequence[int], rows: Sequence[RowFields]) -> LinkPage:
        page = _Page(role)
        slow = page.add_quickly(rows) if role == WHOLE and len(rows) >= QUICK_ROWS else rows
        read = {row[0]: self._read(page, row) for row in slow}
        missing = set(wanted).difference(row[0] for row in rows) if len(rows) < len(wanted) else ()
        broken = [*missing, *(number for number, payload in read.items() if payload is None)]
        return LinkPage(
            role,
            np.setdiff1d(wanted, broken) if broken else np.array(wanted, np.int64),
            {to: np.concatenate(ids) for to, ids in page.links.items()},
            page.count,
            self._asked_for(wanted, rows, read) if self.types or self.types is None else (),
            broken,
        )

    def _read(self, page: _Page, row: RowFields) -> Payload | None:
        """Read one object exactly; None if that is not possible."""
        try:
            payload = self._payloads.payload(row)
            if payload is not None:
                page.add(payload)
        except (DamagedRowError, FormatError):
            return None
        return payload

    def _asked_for(
        self,
        wanted: Sequence[int],
        rows: Sequence[RowFields],
        read: Mapping[int, Payload | None],
    ) -> Sequence[Payload]:
        """The payloads of the types asked for, in the order of the ids."""
        types = self.types
        some = {row[0]: row for row in rows if types is None or row[2] in types}
        found = (
            read[number] if number in read else _payload(some[number])
            for number in wanted
            if number in some
        )
        return [payload for payload in found if payload is not None]


class _Page:
    """The links of a page, as they are found."""

    def __init__(self, role: LinkRole) -> None:
        self._role = role
        self.links: defaultdict[LinkRole, list[Ids]] = defaultdict(list)
        self.count = 0

    def add_quickly(self, rows: Sequence[RowFields]) -> Sequence[RowFields]:
        """Add the links of many whole objects; returns those that must be read exactly."""
        quick = scan_rows([row[-1] for row in rows])
        self._add(WHOLE, quick.ids)
        return [rows[place] for place in np.flatnonzero(~quick.is_read).tolist()]

    def add(self, payload: Payload) -> None:
        for role, ids in scan_links(payload.payload, self._role).items():
            self._add(role, np.array(ids, np.int64))

    def _add(self, role: LinkRole, ids: Ids) -> None:
        if len(ids):
            self.links[role].append(ids)
            self.count += len(ids)


def _payload(row: RowFields) -> Payload | None:
    number, _, name, created_at, token, value = row
    body = whole_payload(value)
    return None if body is None else Payload(number, name, created_at, token, body)
