"""Making a realm of an export.

The realm stays in LOADING, where nobody can use it, until everything was written, read back and
found to be what the export says. An import may stop anywhere and be repeated with the same export:
each step then finds its work done, or does it again in the same way.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
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
from lakesweep.store.backend import Reference
from lakesweep.store.names import standing_names
from lakesweep.store.reach import reach
from lakesweep.store.realm import Realm
from lakesweep.store.realms import RealmDefinition, RealmStatus
from lakesweep.store.store import Store
from lakesweep.store.transfer.ages import await_age, check_age
from lakesweep.store.transfer.content import count, items_of, telling
from lakesweep.store.transfer.exports import READABLE
from lakesweep.store.transfer.files import open_export
from lakesweep.store.transfer.lines import EndLine, Header, Kind
from lakesweep.store.transfer.loading import load
from lakesweep.store.transfer.origin import origin_of, with_origin
from lakesweep.store.transfer.reader import ExportReader

_LOADING = frozenset({RealmStatus.LOADING})


@dataclass(frozen=True, slots=True)
class Imported:
    """The realm that an export became; `repeated` if it had become it before."""

    realm: RealmDefinition
    header: Header
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


def _begin(store: Store, name: str, header: Header) -> RealmDefinition:
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
    if header.kind is Kind.ROWS:
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
    if export.header.kind is not Kind.ROWS:
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
    for _ in telling(reach(realm, references), progress, "followed", Kind.LIVE):
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
