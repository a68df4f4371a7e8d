"""Writing a realm to a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.progress import SILENT, Progress
from lakesweep.store.backend import Reference
from lakesweep.store.realms import RealmDefinition, RealmStatus
from lakesweep.store.store import Store
from lakesweep.store.transfer.content import item_lines, items_of, snapshot, telling
from lakesweep.store.transfer.lines import FORMAT, Chain, EndLine, Header, Kind, Line, encode
from lakesweep.store.transfer.origin import without_origin
from lakesweep.store.transfer.totals import Totals
from lakesweep.store.transfer.values import reference_line

Write = Callable[[bytes], object]

#: The states of a realm that can be exported.
READABLE = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: its first line, and its last."""

    header: Header
    end: EndLine


def export_realm(
    store: Store,
    name: str,
    write: Write,
    *,
    kind: Kind = Kind.LIVE,
    history: int | None = None,
    clock: Clock | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Write an active or inactive realm, line by line.

    LIVE is what the references lead to, with the newest `history` commits of each log, or with all.
    ROWS is every row, also of what nothing leads to. Others may write to the realm meanwhile: each
    reference is exported as it was when it was read, together with all that it led to then.
    """
    realm = store.realm_in(name, READABLE)
    references = snapshot(realm)
    now = (clock or SystemClock()).now()
    header = _header(store.realms.get(name), kind, history, now, references)
    items = telling(items_of(realm, kind, references, history), progress, "exported", kind)
    end = _write_lines(header, chain(map(reference_line, references), item_lines(items)), write)
    return Exported(header, end)


def _write_lines(header: Header, lines: Iterable[Line], write: Write) -> EndLine:
    seals, totals = Chain(), Totals()
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
    kind: Kind,
    history: int | None,
    created: datetime,
    references: Sequence[Reference],
) -> Header:
    unnamed = Header(
        format=FORMAT,
        kind=kind,
        export="",
        realm=realm.name,
        properties=without_origin(realm.properties),
        created=created,
        history=history,
    )
    # Whoever exports the same references at the same moment exports the same.
    texts = [encode(unnamed), *(encode(reference_line(each)) for each in references)]
    name = hashlib.sha256(b"".join(texts), usedforsecurity=False).hexdigest()
    return msgspec.structs.replace(unnamed, export=name[:32])
