"""What a realm holds, and the lines that say so in an export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeAlias

from lakesweep.progress import Progress
from lakesweep.store.backend import ObjectRow, Reference, RowKey
from lakesweep.store.payloads import PAGE_ROWS, Pages, Payload
from lakesweep.store.reach import reach
from lakesweep.store.realm import Realm
from lakesweep.store.transfer.lines import Kind, Line, encode
from lakesweep.store.transfer.totals import Totals
from lakesweep.store.transfer.values import object_lines, reference_line, row_line

#: A whole object, or one row as it is.
Item: TypeAlias = Payload | ObjectRow


def content_hash(realm: Realm, *, history: int | None = None) -> str:
    """The hash of the references of a realm and of everything that they lead to.

    It is the same in every database. A live export of as much of each log has the same one.
    """
    references = snapshot(realm)
    return count(references, reach(realm, references, history=history)).hash


def count(references: Iterable[Reference], items: Iterable[Item]) -> Totals:
    """The totals of an export of all this."""
    totals = Totals()
    for line in chain(map(reference_line, references), item_lines(items)):
        totals.add(line, encode(line))
    return totals


def snapshot(realm: Realm) -> Sequence[Reference]:
    """The references by name: each as it is now, but not all of them at one moment."""
    return sorted(realm.references.list(), key=lambda reference: reference.name.encode())


def items_of(
    realm: Realm, kind: Kind, references: Sequence[Reference], history: int | None
) -> Iterator[Item]:
    """The objects that references lead to, or all rows."""
    match kind:
        case Kind.LIVE:
            return reach(realm, references, history=history)
        case Kind.ROWS:
            return _rows(realm)


def item_lines(items: Iterable[Item]) -> Iterator[Line]:
    """The lines of objects or rows."""
    for item in items:
        if isinstance(item, ObjectRow):
            yield row_line(item)
        else:
            yield from object_lines(item)


def telling(items: Iterable[Item], progress: Progress, label: str, kind: Kind) -> Iterator[Item]:
    """The same items; whoever waits for them sees how many have come."""
    unit = "objects" if kind is Kind.LIVE else "rows"
    rest = iter(items)
    with progress.task(label, unit=unit) as task:
        count = size = 0
        for item in rest:
            yield item
            count += 1
            size += len(item.value if isinstance(item, ObjectRow) else item.payload)
            if count == PAGE_ROWS:
                task.advance(count, size)
                count = size = 0
        task.advance(count, size)


def _rows(realm: Realm) -> Iterator[ObjectRow]:
    """All rows, by id and part; those that are deleted meanwhile are left out."""
    heads = realm.backend.scan_rows(realm.name)
    pages = Pages()
    while keys := [RowKey(head.id, head.part) for head in islice(heads, pages.rows)]:
        rows = realm.backend.fetch(realm.name, keys)
        pages.learn(len(rows), sum(len(row.value) for row in rows.values()))
        yield from (rows[key] for key in keys if key in rows)
