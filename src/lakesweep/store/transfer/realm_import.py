"""Import a realm from an export.

The realm stays in LOADING, where it cannot be used, until everything has been written, read back
and found equal to the export. An import may be interrupted anywhere and repeated with the same
export: each step either finds its work done or does it again in the same way.

Ids of another store hold the time of their creation by its clock. They can collide with new ids
here only if that time is still to come, so the import waits for it or refuses.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import (
    DamagedRowError,
    HeadMissingError,
    NewerRowError,
    RealmExistsError,
    RealmMissingError,
    RefusedError,
    StoreError,
)
from lakesweep.progress import SILENT, Progress
from lakesweep.store.backends.rows import ObjectRow, Reference
from lakesweep.store.ids.snowflake import decompose, moment_of
from lakesweep.store.objects import row_format
from lakesweep.store.realms.payloads import PAGE_BYTES, PAGE_ROWS, Payload
from lakesweep.store.realms.reachability import reach
from lakesweep.store.realms.realm import Realm
from lakesweep.store.realms.registry import RealmDefinition, RealmStatus
from lakesweep.store.reserved_names import standing_names
from lakesweep.store.store import Store
from lakesweep.store.transfer.export_file import ExportReader, open_export
from lakesweep.store.transfer.format import EndLine, ExportHeader, ExportKind
from lakesweep.store.transfer.realm_export import (
    READABLE,
    count,
    items_of,
    origin_of,
    telling,
    with_origin,
)

_LOADING = frozenset({RealmStatus.LOADING})


@dataclass(frozen=True, slots=True)
class Imported:
    """The realm that an export became; `repeated` if it had become it before."""

    realm: RealmDefinition
    header: ExportHeader
    end: EndLine
    repeated: bool = False


def import_realm(
    store: Store,
    source: Path | io.BufferedReader[Any],
    *,
    name: str | None = None,
    active: bool = True,
    clock: Clock | None = None,
    progress: Progress = SILENT,
) -> Imported:
    """Make a new realm of an export, under its own name or another one.

    A file is read twice: nothing is changed if it is damaged. What comes through a pipe is read
    once; if it is damaged, the realm stays in LOADING until it is imported again or purged. Rows of
    a realm that was damaged itself become an INACTIVE realm, and an error that says so.
    """
    clock = clock or SystemClock()
    if isinstance(source, Path) and source.is_file():
        _check(source, clock, progress)
    with open_export(source) as export:
        realm = _begin(store, name or export.header.realm, export.header)
        if realm.status is not RealmStatus.LOADING:
            return _find_done(store, realm, export)
        loading = store.realm_in(realm.name, _LOADING)
        _load(loading, export, clock, progress)
        damage = _damage(loading, export, progress)
        status = RealmStatus.ACTIVE if active and damage is None else RealmStatus.INACTIVE
        realm = store.realms.move(realm, status)
        if damage is not None:
            raise damage
        return Imported(realm, export.header, export.totals.end())


def _check(source: Path, clock: Clock, progress: Progress) -> None:
    with open_export(source) as export:
        _drain(export, progress, "checked")
        check_age(export.newest, clock)


def _drain(export: ExportReader, progress: Progress, label: str) -> None:
    for _ in telling(export.items(), progress, label, export.header.kind):
        pass


def _begin(store: Store, name: str, header: ExportHeader) -> RealmDefinition:
    """The realm in LOADING; or as it is, if it was made of this export before."""
    realms, properties = store.realms, with_origin(header.properties, header.export)
    try:
        realm = realms.get(name)
    except RealmMissingError:
        realm = realms.create(name, properties)
    origin = origin_of(realm.properties)
    if realm.status is RealmStatus.CREATED and origin is None:
        realm = realms.set_properties(realm, {**realm.properties, **properties})
    elif origin != header.export:
        raise _taken(realm, origin)
    if realm.status is RealmStatus.CREATED:
        return realms.move(realm, RealmStatus.LOADING)
    if realm.status in READABLE | _LOADING:
        return realm
    raise _taken(realm, origin)


def _taken(realm: RealmDefinition, origin: str | None) -> StoreError | RefusedError:
    if realm.status in _LOADING | {RealmStatus.CREATED}:
        return RefusedError(
            "realm-state",
            f"realm {realm.name} is being loaded from another export, {origin}",
            hint=f"repeat that import, or give it up: lakesweep realm purge {realm.name}",
        )
    return RealmExistsError(
        f"realm {realm.name} exists already, and is {realm.status}",
        hint="import it under another name with --realm",
    )


def _find_done(store: Store, realm: RealmDefinition, export: ExportReader) -> Imported:
    """What an earlier import of the same export has made; RealmExistsError if it changed since."""
    made = store.realm_in(realm.name, READABLE)
    if not _has_exactly(made, export.references):
        raise RealmExistsError(
            f"realm {realm.name} was made of this export, and has changed since",
            hint="import it under another name with --realm",
        )
    _drain(export, SILENT, "checked")
    damage = _damage(made, export, SILENT) if realm.status is RealmStatus.INACTIVE else None
    if damage is not None:
        raise damage
    return Imported(realm, export.header, export.totals.end(), repeated=True)


def _load(realm: Realm, export: ExportReader, clock: Clock, progress: Progress) -> None:
    """Write everything, the references last, once all that they lead to was found there."""
    kind = export.header.kind
    load(realm, telling(export.items(), progress, "imported", kind))
    _verify(realm, export, progress)
    await_age(export.newest, clock)
    realm.backend.insert_references(realm.name, export.references)
    realm.references.ensure(standing_names(realm.name))
    _verify_references(realm, export.references)


def _verify(realm: Realm, export: ExportReader, progress: Progress) -> None:
    header, references = export.header, export.references
    stored = items_of(realm, header.kind, references, header.history)
    found = count(references, telling(stored, progress, "verified", header.kind))
    if found.hash != export.totals.hash:
        raise StoreError(
            f"realm {realm.name} does not hold what the export says: {found.items:,} of "
            f"{export.totals.items:,} were found",
            hint="repeat the import",
        )
    if header.kind is ExportKind.ROWS:
        return
    ids = groupby(map(attrgetter("id"), realm.backend.scan_rows(realm.name)))
    if sum(1 for _ in ids) != found.items:
        raise StoreError(
            f"realm {realm.name} holds rows that are not of this export",
            hint=f"give it up: lakesweep realm purge {realm.name}",
        )


def _damage(realm: Realm, export: ExportReader, progress: Progress) -> StoreError | None:
    """What is wrong with what the references lead to. Rows are exported as they are, good or not.

    Such a realm can be looked at and mended, but must not come into use unnoticed.
    """
    if export.header.kind is not ExportKind.ROWS:
        return None
    try:
        _walk(realm, export.references, progress)
    except (DamagedRowError, HeadMissingError) as error:
        return type(error)(
            f"realm {realm.name} stays inactive, since its rows are damaged as they were when they "
            f"were exported: {error.message}",
            hint=_mending(realm, export.references),
        )
    return None


def _walk(realm: Realm, references: Sequence[Reference], progress: Progress) -> None:
    for _ in telling(reach(realm, references), progress, "followed", ExportKind.LIVE):
        pass


def _mending(realm: Realm, references: Sequence[Reference]) -> str:
    """The next command: for the first reference that leads to damage."""
    for reference in references:
        try:
            _walk(realm, [reference], SILENT)
        except NewerRowError as error:
            return error.hint
        except (DamagedRowError, HeadMissingError):
            return f"{realm.references.recovery(reference.name)} --deep --dry-run"
    return f"lakesweep realm purge {realm.name} gives it up"


def _verify_references(realm: Realm, references: Sequence[Reference]) -> None:
    if not _has_exactly(realm, references):
        raise StoreError(
            f"realm {realm.name} holds references that are not of this export",
            hint=f"give it up: lakesweep realm purge {realm.name}",
        )


def _has_exactly(realm: Realm, references: Sequence[Reference]) -> bool:
    """Whether the realm has these references as they are, and else only those it must have."""
    found = {reference.name: reference for reference in realm.references.list()}
    wanted = {reference.name: reference for reference in references}
    new = [each for name, each in found.items() if name not in wanted]
    if any(each.pointer is not None or each.name not in standing_names(realm.name) for each in new):
        return False
    return all(found.get(name) == each for name, each in wanted.items())


def load(realm: Realm, items: Iterable[Payload | ObjectRow]) -> None:
    """Write objects or rows. Whoever does it again writes the same bytes to the same rows."""
    rows: list[ObjectRow] = []
    size = 0
    for item in items:
        for row in [item] if isinstance(item, ObjectRow) else _rows(item):
            rows.append(row)
            size += len(row.value)
            if len(rows) >= PAGE_ROWS or size >= PAGE_BYTES:
                _write(realm, rows)
                rows, size = [], 0
    _write(realm, rows)


def _write(realm: Realm, rows: Sequence[ObjectRow]) -> None:
    realm.backend.write(realm.name, [row for row in rows if row.token is None])
    for row in rows:
        if row.token is not None:
            # Others may change it once the realm is active. A write of ours that was lost and comes
            # late must not undo that, so it only ever creates the row.
            realm.backend.insert_row(realm.name, row)


def _rows(item: Payload) -> Sequence[ObjectRow]:
    if len(item.payload) <= row_format.MAX_WHOLE_BYTES:
        values: Sequence[bytes] = [row_format.encode_whole(item.payload)]
    else:
        # Each write of the object writes the same, so they may all have the same generation.
        values = row_format.encode_parts(item.payload, item.id)
    return [
        ObjectRow(item.id, part, item.type, item.created_at, item.token, value)
        for part, value in enumerate(values)
    ]


#: The clocks of those who use one store differ by less than this.
TOLERANCE = timedelta(seconds=1)
#: For so long it is worth waiting.
PATIENCE = timedelta(seconds=60)


def check_age(newest: int, clock: Clock) -> None:
    """RefusedError if the newest id will not be past soon."""
    if _past_at(newest) - clock.now() > PATIENCE:
        raise RefusedError(
            "clock",
            f"object {newest} has an id of {_text(moment_of(decompose(newest).millisecond))}, "
            f"and here it is {_text(clock.now())}: a new object could be given the same id",
            hint="set the clock of this machine right, or import it when that moment is past",
        )


def await_age(newest: int, clock: Clock) -> None:
    """Return when no id that is given out here from now on can be one of those; or refuse."""
    check_age(newest, clock)
    clock.sleep((_past_at(newest) - clock.now()).total_seconds())


def _past_at(newest: int) -> datetime:
    return moment_of(decompose(newest).millisecond + 1) + TOLERANCE


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
