"""Use cases of the store's own database: create it, describe it, maintain it, recover a reference.

Each result encodes to the JSON that the commands print.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from lakesweep.app import App
from lakesweep.clock import moment
from lakesweep.errors import ContendedError, RealmExistsError, SchemaError
from lakesweep.maintenance.maintained_realms import (
    MaintenanceRunSpec,
    require_maintainable,
    require_purgeable,
)
from lakesweep.maintenance.run_records import (
    LiveFilterFigures,
    MaintenanceRunInformation,
    MaintenanceStats,
)
from lakesweep.maintenance.service import MaintenanceService
from lakesweep.operations.interaction import SILENT_IO, Confirm, EngineName, Interaction
from lakesweep.operations.store.log import CommitView, check_reference, open_realm
from lakesweep.operations.store.maintenance_events import told_to_webhooks
from lakesweep.operations.store.realms import RealmView
from lakesweep.redaction import masked
from lakesweep.runs.records import RunStatus
from lakesweep.store import Realm, Store
from lakesweep.store.backends.backend import SCHEMA_VERSION, BackendCapabilities
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.recovery import Diagnosis, diagnose, reset_reference
from lakesweep.store.ids.node_leases import leased_nodes
from lakesweep.store.realms.reachability import reach


class InitStoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """The store after it was created; `created` names what was missing."""

    database: str
    schema_version: int
    created: tuple[str, ...]
    realm: RealmView


class MaintenanceView(msgspec.Struct, frozen=True, kw_only=True):
    """One maintenance run."""

    run: str
    status: RunStatus
    success: bool
    dry_run: bool
    started: datetime
    finished: datetime | None
    cut_off: datetime
    status_message: str
    detailed_information: str
    reference_stats: MaintenanceStats
    obj_stats: MaintenanceStats
    per_realm_reference_stats: dict[str, MaintenanceStats]
    per_realm_per_obj_type_stats: dict[str, dict[str, MaintenanceStats]]
    purged_realms: int
    realms_purged: tuple[str, ...]
    identified_references: int
    identified_objs: int
    distinct_references: int
    distinct_objs: int
    tidied: dict[str, dict[str, int]]
    filters: LiveFilterFigures | None
    resumes: str | None

    @classmethod
    def of(cls, info: MaintenanceRunInformation) -> MaintenanceView:
        """The view of a stored run."""
        same = {name: getattr(info, name) for name in cls.__struct_fields__ if hasattr(info, name)}
        return cls(**same, dry_run=info.is_dry_run, cut_off=moment(info.cut_off_at))


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The database, what it can do, its realms, and its last maintenance run."""

    database: str
    schema_version: int
    nodes_leased: int
    capabilities: BackendCapabilities
    realms: tuple[RealmView, ...]
    maintenance: MaintenanceView | None


@dataclass(frozen=True, slots=True)
class MaintainStoreRequest:
    """Delete what the store no longer needs. `supersede` names a run to take over from.

    Without any `realms` or `purge_realms`, the state of each realm decides.
    """

    supersede: str | None = None
    engine: EngineName = EngineName.LOCAL
    dry_run: bool = False
    realms: tuple[str, ...] = ()
    purge_realms: tuple[str, ...] = ()
    system_realm: bool = True


class MaintenancePreview(msgspec.Struct, frozen=True):
    """The realms of a maintenance run; rows younger than `grace` are kept."""

    realms_to_process: tuple[str, ...]
    realms_to_purge: tuple[str, ...]
    grace: timedelta


@dataclass(frozen=True, slots=True)
class RecoverReferenceRequest:
    """Reset a reference to its newest readable commit.

    With `deep`, everything a commit links to must be readable too. No realm is the configured one.
    """

    reference: str
    realm: str | None = None
    deep: bool = False
    dry_run: bool = False


class LostCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that cannot be read, and why."""

    commit: str
    reason: str


class RecoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a reference: `lost` commits, newest first, and the newest readable one.

    It is also the preview, with `recovered` still False.
    """

    reference: str
    healthy: bool
    recovered: bool
    lost: tuple[LostCommit, ...]
    head: CommitView | None
    dry_run: bool


def init_store(app: App) -> InitStoreResult:
    """Create the tables and the configured realm where they are missing."""
    name = app.config.store.realm
    created = ["tables"] if _create_tables(app.store_url) else []
    created += [f"realm {name}"] if _create_realm(app.store, name) else []
    return InitStoreResult(
        database=masked(app.store_url),
        schema_version=SCHEMA_VERSION,
        created=tuple(created),
        realm=RealmView.of(app.store.realms.get(name)),
    )


def _create_tables(url: str) -> bool:
    """Whether tables were missing."""
    try:
        Store.open(url).close()
    except SchemaError:
        Store.create_tables(url)
        return True
    return False


def _create_realm(store: Store, name: str) -> bool:
    """Whether the realm was missing."""
    try:
        store.create_realm(name)
    except (RealmExistsError, ContendedError):
        return False  # it exists, or another process is creating it
    return True


def store_info(app: App) -> StoreInfo:
    """Describe the store."""
    newest = next(app.maintenance_runs.list(), None)
    return StoreInfo(
        database=masked(app.store_url),
        schema_version=SCHEMA_VERSION,
        nodes_leased=len(leased_nodes(app.store.backend, app.clock)),
        capabilities=app.store.backend.capabilities,
        realms=tuple(_counted_realms(app.store)),
        maintenance=None if newest is None else MaintenanceView.of(newest),
    )


def _counted_realms(store: Store) -> Iterator[RealmView]:
    for realm in store.realms.list():
        references = sum(1 for _ in store.backend.scan_references(realm.name))
        yield RealmView.of(realm, references)


def maintain_store(
    app: App,
    request: MaintainStoreRequest,
    confirm: Confirm[MaintenancePreview],
    io: Interaction = SILENT_IO,
) -> MaintenanceView:
    """Delete unreferenced rows and purge the realms that are purging."""
    service = replace(app.maintenance, progress=io.progress)
    spec = _spec(app.store, request) or service.build_spec()
    spec = replace(spec, include_system_realm=request.system_realm)
    confirm(_preview(spec, service))
    with app.maintenance_engine(request.engine.value, verbose=io.verbose) as engine:
        working = replace(service, engine=engine)
        with told_to_webhooks(app):
            run = working.perform(spec, supersede=request.supersede, dry_run=request.dry_run)
    return MaintenanceView.of(run)


def preview_maintenance(app: App, request: MaintainStoreRequest) -> MaintenancePreview:
    """What maintenance would work on."""
    service = app.maintenance
    return _preview(_spec(app.store, request) or service.build_spec(), service)


def _preview(spec: MaintenanceRunSpec, service: MaintenanceService) -> MaintenancePreview:
    return MaintenancePreview(
        tuple(sorted(spec.realms_to_process)),
        tuple(sorted(spec.realms_to_purge)),
        service.config.grace,
    )


def _spec(store: Store, request: MaintainStoreRequest) -> MaintenanceRunSpec | None:
    """The realms that the request names, in states that allow it; None if it names none."""
    for name in request.realms:
        require_maintainable(store.realms.get(name))
    for name in request.purge_realms:
        require_purgeable(store.realms.get(name))
    if not request.realms and not request.purge_realms:
        return None
    return MaintenanceRunSpec(frozenset(request.realms), frozenset(request.purge_realms))


def recover_reference(
    app: App,
    request: RecoverReferenceRequest,
    confirm: Confirm[RecoveryResult],
    io: Interaction = SILENT_IO,
) -> RecoveryResult:
    """Reset a reference whose head cannot be read. Commits after the new head are lost."""
    check_reference(request.reference)
    realm = open_realm(app, request.realm)
    diagnosis = _diagnose(realm, request, io)
    found = _recovery(diagnosis, dry_run=request.dry_run)
    if found.healthy:
        return found
    confirm(found)
    if request.dry_run:
        return found
    reset_reference(realm.references, diagnosis)
    return msgspec.structs.replace(found, recovered=True)


def _diagnose(realm: Realm, request: RecoverReferenceRequest, io: Interaction) -> Diagnosis:
    if not request.deep:
        return diagnose(realm.references, realm.stored, request.reference)
    with io.progress.task("read", unit="objects") as task:

        def read_all(candidate: Reference) -> None:
            for _ in reach(realm, [candidate], history=1):
                task.advance(1)

        return diagnose(realm.references, realm.objects, request.reference, read_all)


def _recovery(diagnosis: Diagnosis, *, dry_run: bool) -> RecoveryResult:
    return RecoveryResult(
        reference=diagnosis.reference.name,
        healthy=not diagnosis.lost,
        recovered=False,
        lost=tuple(LostCommit(commit=str(each.id), reason=each.reason) for each in diagnosis.lost),
        head=None if diagnosis.target is None else CommitView.of(diagnosis.target),
        dry_run=dry_run,
    )
