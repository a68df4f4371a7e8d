"""Use cases of realms: create, list, show, activate, deactivate, purge and delete.

Each result encodes to the JSON that the commands print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from lakesweep.app import App
from lakesweep.errors import RefusedError
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.store import Store
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.purge import RealmPurger, RealmSize, check_purgeable
from lakesweep.store.realms.registry import (
    RealmDefinition,
    RealmStatus,
    check_deletable,
    check_name,
)
from lakesweep.timestamps import moment


class RealmView(msgspec.Struct, frozen=True, kw_only=True):
    """One realm; `references` is set if they were counted."""

    name: str
    status: RealmStatus
    references: int | msgspec.UnsetType = msgspec.UNSET
    created: datetime
    updated: datetime
    properties: dict[str, str]

    @classmethod
    def of(cls, realm: RealmDefinition, references: int | None = None) -> RealmView:
        """The view of a stored realm."""
        return cls(
            name=realm.name,
            status=realm.status,
            references=msgspec.UNSET if references is None else references,
            created=moment(realm.created_at),
            updated=moment(realm.updated_at),
            properties=dict(realm.properties),
        )


class RealmList(msgspec.Struct, frozen=True):
    """All realms, by name."""

    realms: tuple[RealmView, ...]


@dataclass(frozen=True, slots=True)
class CreateRealmRequest:
    """Create a realm and activate it."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemoveRealmRequest:
    """Purge a realm, or delete a purged one."""

    name: str
    dry_run: bool = False


class RemovedRealm(msgspec.Struct, frozen=True, kw_only=True):
    """A realm and what was deleted of it; as a preview, what it holds."""

    realm: str
    status: RealmStatus
    references: int
    rows: int
    dry_run: bool


def create_realm(app: App, request: CreateRealmRequest) -> RealmView:
    """Create a realm and activate it. Repeating an interrupted creation finishes it."""
    app.store.create_realm(request.name, dict(request.properties))
    return RealmView.of(app.store.realms.get(request.name))


def list_realms(app: App) -> RealmList:
    """All realms, in any state."""
    return RealmList(tuple(map(RealmView.of, app.store.realms.list())))


def show_realm(app: App, name: str) -> RealmView:
    """One realm, with the number of its references."""
    realm = _find(app.store, name)
    return RealmView.of(realm, sum(1 for _ in app.store.backend.scan_references(name)))


def activate_realm(app: App, name: str) -> RealmView:
    """Make an inactive realm usable again."""
    return _move(app.store, name, RealmStatus.INACTIVE, RealmStatus.ACTIVE)


def deactivate_realm(app: App, name: str) -> RealmView:
    """Refuse all use of a realm, and keep its data. Running processes notice within seconds."""
    return _move(app.store, name, RealmStatus.ACTIVE, RealmStatus.INACTIVE)


def purge_realm(
    app: App,
    request: RemoveRealmRequest,
    confirm: Confirm[RemovedRealm],
    io: Interaction = SILENT_IO,
) -> RemovedRealm:
    """Delete everything in an inactive realm. Repeating an interrupted purge finishes it."""
    realm, purger = _find(app.store, request.name), _purger(app, io)
    check_purgeable(realm)
    found = purger.count(realm.name)
    preview = _removed(realm, found, dry_run=request.dry_run)
    if realm.status is RealmStatus.PURGED:
        return preview
    confirm(preview)
    if request.dry_run:
        return preview
    io.notify(f"waiting {VIEW_SECONDS:.0f} seconds until all processes have noticed")
    return _removed(purger.purge(realm), found, dry_run=False)


def delete_realm(
    app: App,
    request: RemoveRealmRequest,
    confirm: Confirm[RemovedRealm],
    io: Interaction = SILENT_IO,
) -> RemovedRealm:
    """Delete a purged realm, with any rows written after the purge; its name becomes free."""
    realm, purger = _find(app.store, request.name), _purger(app, io)
    check_deletable(realm)
    preview = _removed(realm, purger.count(realm.name), dry_run=request.dry_run)
    confirm(preview)
    if request.dry_run:
        return preview
    return _removed(realm, purger.delete(realm), dry_run=False)


def _find(store: Store, name: str) -> RealmDefinition:
    check_name(name)
    return store.realms.get(name)


def _move(store: Store, name: str, before: RealmStatus, after: RealmStatus) -> RealmView:
    realm = _find(store, name)
    if realm.status not in {before, after}:
        raise RefusedError(
            "realm-state",
            f"realm {name} is {realm.status}; only an {before} realm can become {after}",
            hint=f"lakesweep realm show {name}",
        )
    return RealmView.of(realm if realm.status is after else store.realms.move(realm, after))


def _purger(app: App, io: Interaction) -> RealmPurger:
    return RealmPurger(app.store.realms, app.store.backend, app.clock, io.progress)


def _removed(realm: RealmDefinition, found: RealmSize, *, dry_run: bool) -> RemovedRealm:
    return RemovedRealm(
        realm=realm.name,
        status=realm.status,
        references=found.references,
        rows=found.rows,
        dry_run=dry_run,
    )
