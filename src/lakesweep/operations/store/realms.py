"""Use cases of realms: create, list, show, activate, deactivate, purge and delete.

Each result encodes to the JSON that the commands print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from lakesweep.app import App
from lakesweep.catalog.access.realm_bootstrap import FIRST_PRINCIPAL, bootstrap_realm
from lakesweep.catalog.principals import Credentials
from lakesweep.clock import moment
from lakesweep.errors import IncompleteError, RealmExistsError, RefusedError
from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.store.maintenance_events import told_to_webhooks
from lakesweep.store import Store
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.purge import RealmPurger, RealmSize, check_purgeable
from lakesweep.store.realms.registry import (
    RealmDefinition,
    RealmStatus,
    check_deletable,
    check_name,
)


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
    """Purge a realm, or delete a purged one.

    A purge deletes `now`, or leaves that to the next maintenance run.
    """

    name: str
    dry_run: bool = False
    now: bool = False


class RemovedRealm(msgspec.Struct, frozen=True, kw_only=True):
    """A realm and what was deleted of it; as a preview, what it holds."""

    realm: str
    status: RealmStatus
    references: int
    rows: int
    dry_run: bool


class CreatedRealm(RealmView, frozen=True, kw_only=True):
    """A new realm, and how its first principal logs in. The secret is not stored."""

    principal: str
    client_id: str
    secret: str


def create_realm(app: App, request: CreateRealmRequest) -> CreatedRealm:
    """Create a realm with its root, admin roles and first principal, and activate it.

    Repeating an interrupted creation finishes it.
    """
    made: list[Credentials] = []
    app.store.create_realm(
        request.name,
        dict(request.properties),
        lambda realm: made.append(bootstrap_realm(realm)),
    )
    view = RealmView.of(app.store.realms.get(request.name))
    if not made:
        raise RealmExistsError(f"another process created realm {request.name} just now")
    return CreatedRealm(
        **msgspec.structs.asdict(view),
        principal=FIRST_PRINCIPAL,
        client_id=made[-1].client_id,
        secret=made[-1].secret,
    )


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
    """Let maintenance delete everything in an inactive realm: its next run, or one that starts now.

    Repeating an interrupted purge finishes it.
    """
    realm = _find(app.store, request.name)
    check_purgeable(realm)
    found = _purger(app, io).count(realm.name)
    preview = _removed(realm, found, dry_run=request.dry_run)
    if realm.status is RealmStatus.PURGED:
        return preview
    confirm(preview)
    if request.dry_run:
        return preview
    if realm.status is not RealmStatus.PURGING:
        realm = app.store.realms.move(realm, RealmStatus.PURGING)
    if request.now:
        realm = _purge_now(app, realm, io)
    return _removed(realm, found, dry_run=False)


def _purge_now(app: App, realm: RealmDefinition, io: Interaction) -> RealmDefinition:
    """Purge under the lease of maintenance: no two processes scan a store at the same time."""
    io.notify(f"waiting {VIEW_SECONDS:.0f} seconds until all processes have noticed")
    service = replace(app.maintenance, progress=io.progress)
    spec = MaintenanceRunSpec(realms_to_purge=frozenset({realm.name}), include_system_realm=False)
    with told_to_webhooks(app):
        run = service.perform(spec)
    if not run.success:
        raise IncompleteError(
            f"realm {realm.name} is not purged yet: {run.status_message}",
            hint=f"lakesweep realm purge {realm.name} --now",
        )
    return app.store.realms.get(realm.name)


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
