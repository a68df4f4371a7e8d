"""List the files that Iceberg tables and views reach, and purge a table or view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.app import App
from lakesweep.iceberg.known_tables import TargetTable
from lakesweep.iceberg.purge import PurgePlan, execute_purge, tally_problems
from lakesweep.iceberg.reach import reached_files
from lakesweep.marks.unreadable import Problem, Strict, Tolerance, Tolerant
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.files import PurgeResult, ReachedFiles
from lakesweep.storage.datasets.unique_files import unique_files
from lakesweep.storage.deleting.bulk_delete import make_deleter
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.options import UNLIMITED, DeleteRate


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
class OverlappingTable:
    """Another table that keeps files in a folder of the purged one."""

    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class PurgeTablePreview:
    """What a purge is about to delete, by kind of file.

    `outside` counts files outside the table's own folders; `protected` files stay because another
    known table needs them; `problems` are files that could not be read.
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
    """Delete a table or view with all that it reaches, but nothing that another table needs.

    Files are deleted children first and the metadata last, so an interrupted purge can be repeated.
    The name is dropped before the first delete: no reader finds a table that is half gone.
    """
    tables = app.iceberg
    target = tables.find(request.ref)
    planned = tables.plan_purge(
        target, base_location=request.base_location, overrides=request.overrides
    )
    with planned as plan:
        confirm(_preview(target, plan))
        if request.dry_run:
            return _purged(target, plan, tally_problems(plan), request)
        tables.check_unchanged(target, plan, overrides=request.overrides)
        if request.drop:
            tables.drop(target)
        delete = make_deleter(target.stores, app.clock, request.rate)
        totals = execute_purge(plan, delete, progress=io.progress)
        return _purged(target, plan, totals, request)


def _preview(target: TargetTable, plan: PurgePlan) -> PurgeTablePreview:
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
        overlapping=tuple(OverlappingTable(one.name, one.folders[0]) for one in plan.overlapping),
        problems=tuple(plan.problems),
    )


def _purged(
    target: TargetTable, plan: PurgePlan, totals: OutcomeTotals, request: PurgeTableRequest
) -> PurgedTable:
    is_dropped = request.drop and not request.dry_run
    result = PurgeResult(
        **{**totals.fields(), "found": plan.total_files},
        bytes_found=plan.total_bytes,
        protected=plan.protected,
        dry_run=request.dry_run,
    )
    is_listed = target.entry is not None and not is_dropped
    return PurgedTable(target.name, target.metadata.path, is_listed, is_dropped, result)
