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
    with_origin,
    with_progress,
)

_LOADING = frozenset({RealmStatus.LOADING})


@dataclass(frozen=True, slots=True)
class Imported:
    """The imported realm; `repeated` if an earlier import had completed it."""

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
    """Create a new realm from an export, under its own name or another one.

    A file is read twice: nothing is changed if it is damaged. A pipe is read once; if it is
    damaged, the realm stays in LOADING until it is imported again or purged. Rows of a realm that
    was itself damaged become an INACTIVE realm, and an error that says so.
    """
    clock = clock or SystemClock()
    if isinstance(source, Path) and source.is_file():
        _check(source, clock, progress)
    with open_export(source) as export:
        realm = _begin(store, name or export.header.realm, export.header)
        if realm.status is not RealmStatus.LOADING:
            return _find_done(store, realm, export)
        # If another process purges the realm meanwhile, every further write is refused.
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
    for _ in with_progress(export.items(), progress, label, export.header.kind):
        pass


def _begin(store: Store, name: str, header: ExportHeader) -> RealmDefinition:
    """The realm in LOADING; or as it is, if it was already imported from this export."""
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
            f"realm {realm.name} is being imported from another export, {origin}",
            hint=f"repeat that import, or abandon it: lakesweep realm purge {realm.name}",
        )
    return RealmExistsError(
        f"realm {realm.name} already exists and is {realm.status}",
        hint="import it under another name with --realm",
    )


def _find_done(store: Store, realm: RealmDefinition, export: ExportReader) -> Imported:
    """The result of an earlier import of the same export; RealmExistsError if it has changed."""
    made = store.realm_in(realm.name, READABLE)
    if not _has_exactly(made, export.references):
        raise RealmExistsError(
            f"realm {realm.name} was imported from this export and has changed since",
            hint="import it under another name with --realm",
        )
    _drain(export, SILENT, "checked")
    damage = _damage(made, export, SILENT) if realm.status is RealmStatus.INACTIVE else None
    if damage is not None:
        raise damage
    return Imported(realm, export.header, export.totals.end(), repeated=True)


def _load(realm: Realm, export: ExportReader, clock: Clock, progress: Progress) -> None:
    """Write everything, references last, once everything they point to was found."""
    kind = export.header.kind
    load(realm, with_progress(export.items(), progress, "imported", kind))
    _verify(realm, export, progress)
    # References come last: until then the realm has no heads, so an interrupted import can be
    # repeated from the start.
    await_age(export.newest, clock)
    realm.backend.insert_references(realm.name, export.references)
    realm.references.ensure(standing_names(realm.name))
    _verify_references(realm, export.references)


def _verify(realm: Realm, export: ExportReader, progress: Progress) -> None:
    header, references = export.header, export.references
    stored = items_of(realm, header.kind, references, header.history)
    found = count(references, with_progress(stored, progress, "verified", header.kind))
    if found.hash != export.totals.hash:
        raise StoreError(
            f"realm {realm.name} does not match the export: {found.items:,} of "
            f"{export.totals.items:,} items were found",
            hint="repeat the import",
        )
    if header.kind is ExportKind.ROWS:
        return
    ids = groupby(map(attrgetter("id"), realm.backend.scan_rows(realm.name)))
    if sum(1 for _ in ids) != found.items:
        raise StoreError(
            f"realm {realm.name} contains rows that are not from this export",
            hint=f"abandon the import: lakesweep realm purge {realm.name}",
        )


def _damage(realm: Realm, export: ExportReader, progress: Progress) -> StoreError | None:
    """What is wrong with the imported rows, since rows are exported as they are, good or bad.

    Such a realm can be inspected and repaired, but must not come into use unnoticed.
    """
    if export.header.kind is not ExportKind.ROWS:
        return None
    try:
        _walk(realm, export.references, progress)
    except (DamagedRowError, HeadMissingError) as error:
        return type(error)(
            f"realm {realm.name} stays inactive, because its rows were already damaged when they "
            f"were exported: {error.message}",
            hint=_repair_command(realm, export.references),
        )
    return None


def _walk(realm: Realm, references: Sequence[Reference], progress: Progress) -> None:
    for _ in with_progress(reach(realm, references), progress, "followed", ExportKind.LIVE):
        pass


def _repair_command(realm: Realm, references: Sequence[Reference]) -> str:
    """The next command, for the first reference that leads to damage."""
    for reference in references:
        try:
            _walk(realm, [reference], SILENT)
        except NewerRowError as error:
            return error.hint
        except (DamagedRowError, HeadMissingError):
            return f"{realm.references.recovery(reference.name)} --deep --dry-run"
    return f"lakesweep realm purge {realm.name} abandons it"


def _verify_references(realm: Realm, references: Sequence[Reference]) -> None:
    if not _has_exactly(realm, references):
        raise StoreError(
            f"realm {realm.name} contains references that are not from this export",
            hint=f"abandon the import: lakesweep realm purge {realm.name}",
        )


def _has_exactly(realm: Realm, references: Sequence[Reference]) -> bool:
    """Whether the realm has exactly these references, besides those that every realm has."""
    found = {reference.name: reference for reference in realm.references.list()}
    wanted = {reference.name: reference for reference in references}
    new = [each for name, each in found.items() if name not in wanted]
    if any(each.pointer is not None or each.name not in standing_names(realm.name) for each in new):
        return False
    return all(found.get(name) == each for name, each in wanted.items())


def load(realm: Realm, items: Iterable[Payload | ObjectRow]) -> None:
    """Write objects or rows. Repeating it writes the same bytes to the same rows."""
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
            # Others may change the row once the realm is active. A delayed write of ours must not
            # undo that, so it only ever creates the row.
            realm.backend.insert_row(realm.name, row)


def _rows(item: Payload) -> Sequence[ObjectRow]:
    if len(item.payload) <= row_format.MAX_WHOLE_BYTES:
        values: Sequence[bytes] = [row_format.encode_whole(item.payload)]
    else:
        # Each write of the object writes the same bytes, so they can all have the same generation.
        values = row_format.encode_parts(item.payload, item.id)
    return [
        ObjectRow(item.id, part, item.type, item.created_at, item.token, value)
        for part, value in enumerate(values)
    ]


#: The clocks of all users of one store differ by less than this.
TOLERANCE = timedelta(seconds=1)
#: How long an import waits at most.
PATIENCE = timedelta(seconds=60)


def check_age(newest: int, clock: Clock) -> None:
    """RefusedError if the time of the newest id is too far in the future."""
    if _past_at(newest) - clock.now() > PATIENCE:
        raise RefusedError(
            "clock",
            f"object {newest} has an id of {_text(moment_of(decompose(newest).millisecond))}, "
            f"and here it is {_text(clock.now())}: a new object could be given the same id",
            hint="correct the clock of this machine, or import it after that time",
        )


def await_age(newest: int, clock: Clock) -> None:
    """Wait until no new id can equal an imported one; or refuse."""
    check_age(newest, clock)
    clock.sleep((_past_at(newest) - clock.now()).total_seconds())


def _past_at(newest: int) -> datetime:
    return moment_of(decompose(newest).millisecond + 1) + TOLERANCE


def _text(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
