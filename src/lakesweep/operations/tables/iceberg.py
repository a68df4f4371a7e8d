"""List the files that Iceberg tables and views reach, and purge a table or view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.mark_levels import facts_of, reached_files
from lakesweep.iceberg.metadata import guess_location
from lakesweep.iceberg.purge import (
    PurgePlan,
    execute_purge,
    own_location,
    plan_base_location,
    plan_purge,
    tally_problems,
)
from lakesweep.iceberg.table_identifier import TargetTable, is_address
from lakesweep.marks.unreadable import Problem, Strict, Tolerance, Tolerant
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import purge_run
from lakesweep.operations.tables.files import PurgeResult, ReachedFiles
from lakesweep.operations.tables.purge_check import (
    OverlappingTable,
    PurgeCheck,
    PurgeScope,
    guard_changed,
    guard_formats,
    guard_gc_enabled,
    guard_location,
    guard_names,
    guard_outside,
    overlapping_tables,
    purge_check,
    whole_stores,
)
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.deleting.bulk_delete import Deleter, make_deleter
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.sweep.format_probe import file_folders, probe_formats
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.own_files import catalog_files
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.references import (
    PurgeTarget,
    ReferencedFiles,
    UnreferencedDeletion,
    references_only,
)


@dataclass(frozen=True, slots=True)
class IcebergFilesRequest:
    """Tables and views by name or metadata address.

    `unique` gives each file once, even if several manifests name it. `tolerant` continues past
    files that cannot be read.
    """

    refs: tuple[str, ...]
    unique: bool = False
    tolerant: bool = False


@dataclass(frozen=True, slots=True)
class PurgeTableRequest:
    """A table or view to delete with all that it reaches, or all below its location.

    `drop` removes its name from the catalog first.
    """

    ref: str
    base_location: bool = False
    drop: bool = False
    rate: DeleteRate = UNLIMITED
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PurgeTablePreview:
    """What a purge is about to delete, by kind of file.

    `outside` counts files outside the table's own folders; `protected` files stay because a root
    references them; `problems` are files that could not be read.
    """

    name: str
    what: str
    format_version: int
    location: str
    metadata: str
    files: Mapping[str, int]
    bytes: Mapping[str, int]
    total_files: int
    total_bytes: int
    outside: int
    protected: int
    overlapping: tuple[OverlappingTable, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class PurgedTable:
    """How the purge of a table ended.

    `is_listed` says whether its catalog still has the name. After a drop, the address of its
    `metadata` is what a repeated purge needs.
    """

    name: str
    metadata: str
    is_listed: bool
    is_dropped: bool
    result: PurgeResult


def iceberg_files(app: App, request: IcebergFilesRequest) -> ReachedFiles:
    """The files that tables and views reach, in all snapshots of all branches and tags."""
    tolerance = Tolerant() if request.tolerant else Strict()
    batches = _reached(app, request.refs, tolerance)
    return ReachedFiles(
        unique_files(batches) if request.unique else batches,
        tolerance.problems if isinstance(tolerance, Tolerant) else (),
    )


def _reached(app: App, refs: Iterable[str], tolerance: Tolerance) -> Iterator[pa.RecordBatch]:
    for ref in refs:
        target = app.iceberg.find(ref)
        yield from reached_files(target.stores, target.metadata, tolerance)


def purge_table(
    app: App,
    request: PurgeTableRequest,
    confirm: Confirm[PurgeTablePreview],
    io: Interaction = SILENT_IO,
) -> PurgedTable:
    """Delete a table or view with all that it reaches, but nothing that any root references.

    Files are deleted children first and the metadata last, so an interrupted purge can be repeated.
    The name is dropped before the first delete: no reader finds a table that is half gone.
    """
    target = app.iceberg.find(request.ref)
    guard_gc_enabled(target, request.overrides)
    planning = plan_base_location if request.base_location else plan_purge
    with planning(target.stores, target.metadata, progress=io.progress) as plan:
        found = purge_target(target)
        scope = purge_scope(app, target, found, plan, request)
        with purge_check(app, scope, plan.every(), progress=io.progress) as check:
            look = partial(guarded_look, check, found, target, request)
            seen = look()
            plan.spare(seen.kept)
            confirm(_preview(target, plan, seen))
            if request.dry_run:
                return _purged(target, plan, tally_problems(plan), request)
            guard_changed(app, target)
            deletion = partial(check.deletion, look=look)
            totals = _carry_out(app, request, target, plan, deletion, io)
        return _purged(target, plan, totals, request)


def _carry_out(
    app: App,
    request: PurgeTableRequest,
    target: TargetTable,
    plan: PurgePlan,
    deletion_by: Callable[[Deleter], UnreferencedDeletion],
    io: Interaction,
) -> OutcomeTotals:
    """Delete the files of a plan, as a run."""
    location, totals = target.metadata.location, tally_problems(plan)
    spec = {"iceberg": target.name, "overridden": sorted(request.overrides)}
    with purge_run(app, "iceberg", [location], spec) as run, run.counting(totals):
        stores = FencedStores(target.stores.within(location), run.fence)
        delete = make_deleter(stores, app.clock, request.rate)
        with deletion_by(delete) as deletion:
            if request.drop:
                app.iceberg.drop(target)
            execute_purge(plan, deletion, totals, progress=io.progress)
    return totals


def guarded_look(
    check: PurgeCheck, found: PurgeTarget, target: TargetTable, request: PurgeTableRequest
) -> ReferencedFiles:
    """Ask all roots, then the guards."""
    seen = check.look()
    guard_names(found, target)
    guard_formats(seen, target)
    guard_outside(
        seen,
        target.name,
        f"lakesweep iceberg files {target.name}",
        request.overrides,
        own="the folder of the table",
    )
    if request.base_location:
        guard_location(seen, target, request.overrides)
    return seen


def purge_target(target: TargetTable) -> PurgeTarget:
    """The table as roots know it."""
    path, facts, entry = target.metadata.path, facts_of(target.metadata), target.entry
    if entry is None:
        return PurgeTarget(path, facts)
    return PurgeTarget(path, facts, entry.source, entry.full_name)


def purge_scope(
    app: App,
    target: TargetTable,
    found: PurgeTarget,
    plan: PurgePlan,
    request: PurgeTableRequest,
) -> PurgeScope:
    """Where the table certainly has files of its own, and all catalogs that may list others."""
    catalogs = app.iceberg.catalogs
    own = _own_location(app, target)
    lies = own or guess_location(target.metadata.path)
    locations: tuple[str, ...] = (own,) if own else ()
    if GuardName.OUTSIDE in request.overrides:
        locations = whole_stores((lies, *_configured(app, target)))
    is_asked = GuardName.FOREIGN not in request.overrides
    folders = _inside(locations, file_folders(plan.every())) if is_asked else ()
    entry = target.entry
    return PurgeScope(
        locations,
        found,
        {**({entry.catalog: {}} if entry and entry.listed_by is None else {}), **catalogs},
        tuple(file for each in catalogs.values() for file in catalog_files(each, Path.cwd())),
        rules=partial(_purge_rules, tuple(_exclusions(app)), claimed_folder(lies), request),
        formats=probe_formats(target.stores, folders),
    )


def _own_location(app: App, target: TargetTable) -> str | None:
    """The folder of the table, unless it is one that the configuration gives to many tables.

    A table called `metadata` can write metadata that seems to be of a table in the folder above.
    """
    own = own_location(target.metadata)
    if own is None:
        return None
    shared = (claimed_folder(each) for each in _configured(app, target))
    return None if any(each.startswith(claimed_folder(own)) for each in shared) else own


def _inside(locations: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """The folders in which anything may be deleted; others need not even be reachable."""
    around = tuple(map(claimed_folder, locations))
    return (folder for folder in folders if claimed_folder(folder).startswith(around))


def _configured(app: App, target: TargetTable) -> Iterator[str]:
    """The places where the configuration says that tables are."""
    yield from (location for lake in app.config.lakes.values() for location in lake.locations)
    entry = target.entry
    warehouse = app.iceberg.catalogs.get(entry.catalog, {}).get("warehouse", "") if entry else ""
    if is_address(warehouse):
        yield warehouse


def _exclusions(app: App) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What lakes exclude, by location: nothing that others wrote overrides the configuration."""
    for lake in app.config.lakes.values():
        if lake.exclude:
            yield from ((claimed_folder(each), lake.exclude) for each in lake.locations)


def _purge_rules(
    exclusions: tuple[tuple[str, tuple[str, ...]], ...],
    own: str,
    request: PurgeTableRequest,
    rules: JudgeRules,
) -> JudgeRules:
    """Rules that also keep what lakes exclude, and the folders of other tables."""
    tables = ((rules.tables.folder(number), name) for number, name in rules.tables.claims)
    # A folder that contains the table's own would keep all of the table.
    others = [(folder, name) for folder, name in tables if not own.startswith(folder)]
    foreign = [(rules.foreign.folder(number), name) for number, name in rules.foreign.claims]
    if GuardName.FOREIGN in request.overrides and not request.base_location:
        others = []
    return replace(
        references_only(rules), foreign=FolderMap([*foreign, *others]), exclusions=exclusions
    )


def _preview(target: TargetTable, plan: PurgePlan, seen: ReferencedFiles) -> PurgeTablePreview:
    return PurgeTablePreview(
        name=target.name,
        what=target.what,
        format_version=target.metadata.format_version,
        location=target.metadata.location,
        metadata=target.metadata.path,
        files=dict(plan.files),
        bytes=dict(plan.bytes),
        total_files=plan.total_files,
        total_bytes=plan.total_bytes,
        outside=plan.outside,
        protected=plan.protected,
        overlapping=tuple(overlapping_tables(seen, target.metadata)),
        problems=tuple(plan.problems),
    )


def _purged(
    target: TargetTable, plan: PurgePlan, totals: OutcomeTotals, request: PurgeTableRequest
) -> PurgedTable:
    is_dropped = request.drop and not request.dry_run
    result = PurgeResult(
        **{**msgspec.structs.asdict(totals.report()), "found": plan.total_files},
        bytes_found=plan.total_bytes,
        protected=plan.protected + totals.counts[Outcome.REFERENCED],
        dry_run=request.dry_run,
    )
    is_listed = target.entry is not None and not is_dropped
    return PurgedTable(target.name, target.metadata.path, is_listed, is_dropped, result)
