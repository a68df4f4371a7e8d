"""Export a realm: its content as lines, and the hash of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import TypeAlias

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.progress import SILENT, Progress
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.realms.payloads import PAGE_ROWS, PageSizer, Payload
from lakesweep.store.realms.reachability import reach
from lakesweep.store.realms.realm import Realm
from lakesweep.store.realms.registry import RealmDefinition, RealmStatus
from lakesweep.store.store import Store
from lakesweep.store.transfer.format import (
    FORMAT,
    ChecksumChain,
    EndLine,
    ExportHeader,
    ExportKind,
    Line,
    Totals,
    encode,
    object_lines,
    reference_line,
    row_line,
)

Write = Callable[[bytes], object]

#: The states of a realm that can be exported.
READABLE = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the first line and the last."""

    header: ExportHeader
    end: EndLine


def export_realm(
    store: Store,
    name: str,
    write: Write,
    *,
    kind: ExportKind = ExportKind.LIVE,
    history: int | None = None,
    clock: Clock | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Write an active or inactive realm, line by line.

    LIVE is everything reachable from the references, with the newest `history` commits of each log,
    or all. ROWS is every row, including unreachable ones. Others may write to the realm in the
    meantime: each reference is exported as it was when read, with everything it pointed to then.
    """
    realm = store.realm_in(name, READABLE)
    references = snapshot(realm)
    now = (clock or SystemClock()).now()
    header = _header(store.realms.get(name), kind, history, now, references)
    items = with_progress(items_of(realm, kind, references, history), progress, "exported", kind)
    end = _write_lines(header, chain(map(reference_line, references), item_lines(items)), write)
    return Exported(header, end)


def _write_lines(header: ExportHeader, lines: Iterable[Line], write: Write) -> EndLine:
    seals, totals = ChecksumChain(), Totals()
    write(seals.seal(encode(header)))
    for line in lines:
        text = encode(line)
        totals.add(line, text)
        write(seals.seal(text))
    end = totals.end()
    write(seals.seal(encode(end)))
    return end


def _header(
    realm: RealmDefinition,
    kind: ExportKind,
    history: int | None,
    created: datetime,
    references: Sequence[Reference],
) -> ExportHeader:
    unnamed = ExportHeader(
        format=FORMAT,
        kind=kind,
        export="",
        realm=realm.name,
        properties=without_origin(realm.properties),
        created=created,
        history=history,
    )
    # Exports of the same references at the same time are the same export.
    texts = [encode(unnamed), *(encode(reference_line(each)) for each in references)]
    name = hashlib.sha256(b"".join(texts), usedforsecurity=False).hexdigest()
    return msgspec.structs.replace(unnamed, export=name[:32])


#: A whole object, or one row as stored.
Item: TypeAlias = Payload | ObjectRow


def content_hash(realm: Realm, *, history: int | None = None) -> str:
    """The hash of the references of a realm and of everything reachable from them.

    It is the same in every database, and equals that of a live export with as much of each log.
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
    """The references by name: each as it is now, but not all at the same time."""
    return sorted(realm.references.list(), key=lambda reference: reference.name.encode())


def items_of(
    realm: Realm, kind: ExportKind, references: Sequence[Reference], history: int | None
) -> Iterator[Item]:
    """The objects reachable from references, or all rows."""
    match kind:
        case ExportKind.LIVE:
            return reach(realm, references, history=history)
        case ExportKind.ROWS:
            return _rows(realm)


def item_lines(items: Iterable[Item]) -> Iterator[Line]:
    """The lines of objects or rows."""
    for item in items:
        if isinstance(item, ObjectRow):
            yield row_line(item)
        else:
            yield from object_lines(item)


def with_progress(
    items: Iterable[Item], progress: Progress, label: str, kind: ExportKind
) -> Iterator[Item]:
    """The same items, while reporting their number as progress."""
    unit = "objects" if kind is ExportKind.LIVE else "rows"
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
    """All rows, by id and part; rows deleted in the meantime are left out."""
    heads = realm.backend.scan_rows(realm.name)
    pages = PageSizer()
    while keys := [RowKey(head.id, head.part) for head in islice(heads, pages.rows)]:
        rows = realm.backend.fetch(realm.name, keys)
        pages.learn(len(rows), sum(len(row.value) for row in rows.values()))
        yield from (rows[key] for key in keys if key in rows)


_PROPERTY = "lakesweep.import"


def origin_of(properties: Mapping[str, str]) -> str | None:
    """The name of the export; None if the realm was not imported."""
    return properties.get(_PROPERTY)


def with_origin(properties: Mapping[str, str], export: str) -> Mapping[str, str]:
    """The properties of a realm that is loaded from an export."""
    return {**properties, _PROPERTY: export}


def without_origin(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that an export includes."""
    return {name: value for name, value in properties.items() if name != _PROPERTY}
