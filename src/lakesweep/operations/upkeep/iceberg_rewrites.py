"""Rewrite the current snapshot of tables: merge manifests, drop dangling deletes, old partitions.

No file is deleted: the snapshots before still have them, until they expire.
Each attempt plans from nothing, writes its manifests and commits. What was written for a commit
that did not happen is removed; if nobody knows whether it happened, it stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import CommitStatus, LoadedTable, TableHandle
from lakesweep.iceberg.rewrite.manifest_entries import FileFacts
from lakesweep.iceberg.rewrite.snapshot_draft import TableHead, load_head
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable, each_table, guard_upkeep
from lakesweep.operations.upkeep.task_runs import StoredTask, task_run
from lakesweep.runs.records import RunKind
from lakesweep.storage.file_batches import file_batch
from lakesweep.sweep.guards import MIN_FILES, Guard
from lakesweep.upkeep.dangling_deletes import plan_dangling
from lakesweep.upkeep.expiry_guards import MAX_FREED_SHARE, refuse_expiry
from lakesweep.upkeep.head_change import HeadChange, is_any
from lakesweep.upkeep.manifest_merge import plan_merge
from lakesweep.upkeep.partition_expiry import plan_partition_expiry

_ATTEMPTS = 5
_PAUSE = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class MergeManifests:
    """Put small manifests together; without a target size, the table's property decides."""

    target_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveDanglingDeletes:
    """Remove delete files that can hide no row any more."""


@dataclass(frozen=True, slots=True)
class ExpirePartitions:
    """Remove data files of which every row has a column before a moment."""

    column: str
    before: datetime


RewriteTask: TypeAlias = MergeManifests | RemoveDanglingDeletes | ExpirePartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTablesRequest:
    """Tables to rewrite: by name or address, all of a catalog, or all of a lake's catalogs."""

    refs: tuple[str, ...] = ()
    catalog: str | None = None
    lake: str | None = None
    task: RewriteTask
    metadata_out: str | None = None
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False


class PartitionLine(msgspec.Struct, frozen=True):
    """A partition whose files are removed."""

    partition: str
    files: int
    bytes: int


class TableRewriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the rewrite of a table ended, or what a dry run found.

    Nothing was committed if `snapshot_id` is None: there was nothing to do, or it was a dry run.
    """

    table: str
    metadata_before: str
    metadata_after: str | None
    snapshot_id: int | None
    figures: dict[str, int]
    partitions: list[PartitionLine] | msgspec.UnsetType = msgspec.UNSET
    guards: list[Guard] | msgspec.UnsetType = msgspec.UNSET
    dry_run: bool

    @property
    def changes(self) -> bool:
        """Whether there is, or was, something to commit."""
        names = ("manifests_created", "dangling", "removed")
        return any(self.figures.get(name) for name in names)


def rewrite_tables(
    app: App,
    request: RewriteTablesRequest,
    confirm: Confirm[TableRewriteResult],
    io: Interaction = SILENT_IO,
) -> Iterator[TableRewriteResult | UnexpiredTable]:
    """Rewrite tables, one after another. An error concerns one table only."""
    return each_table(app, request, lambda ref: rewrite_table(app, ref, request, confirm, io))


def rewrite_table(
    app: App,
    ref: str,
    request: RewriteTablesRequest,
    confirm: Confirm[TableRewriteResult],
    io: Interaction = SILENT_IO,
    stored: StoredTask | None = None,
) -> TableRewriteResult:
    """Rewrite the current snapshot of one table; no more than a stored plan says, if any."""
    del io
    handle = open_table(app.iceberg, ref, metadata_out=request.metadata_out, clock=app.clock)
    return _TableRewrite(app, ref, handle, request, stored).run(confirm)


@dataclass(frozen=True)
class RewritePreview:
    """What a rewrite would do, and the files (FILE_SCHEMA) that would leave the snapshot."""

    found: TableRewriteResult
    location: str
    leaving: tuple[pa.RecordBatch, ...]


def preview_rewrite(app: App, ref: str, request: RewriteTablesRequest) -> RewritePreview:
    """Plan the rewrite of a table, and change nothing."""
    handle = open_table(app.iceberg, ref, metadata_out=request.metadata_out, clock=app.clock)
    return _TableRewrite(app, ref, handle, replace(request, dry_run=True)).preview()


@dataclass(frozen=True)
class _Planned:
    base: LoadedTable
    change: HeadChange | None
    partitions: tuple[PartitionLine, ...] | None = None

    @property
    def is_empty(self) -> bool:
        return self.change is None or self.change.is_empty

    def guards(self) -> list[Guard]:
        figures = {} if self.change is None else self.change.figures
        removed, files = figures.get("removed", 0), figures.get("data_files", 0)
        if files < MIN_FILES or removed <= MAX_FREED_SHARE * files:
            return []
        why = f"{removed:,} of the {files:,} data files of the table would be removed"
        return [Guard(GuardName.SHARE, why)]


class _TableRewrite:
    def __init__(
        self,
        app: App,
        ref: str,
        handle: TableHandle,
        request: RewriteTablesRequest,
        stored: StoredTask | None = None,
    ) -> None:
        self._app, self._ref, self._handle, self._request = app, ref, handle, request
        self._stored = stored

    def preview(self) -> RewritePreview:
        base = self._handle.load()
        target = self._app.iceberg.find(self._ref)
        guard_upkeep(self._handle, target.name, base, self._request.overrides)
        planned = self._plan(base)
        leaving = [] if planned.change is None else [*planned.change.leaving()]
        location = target.metadata.location
        return RewritePreview(self._result(planned), location, tuple(_batches(leaving)))

    def run(self, confirm: Confirm[TableRewriteResult]) -> TableRewriteResult:
        base = self._handle.load()
        target = self._app.iceberg.find(self._ref)
        guard_upkeep(self._handle, target.name, base, self._request.overrides)
        planned = self._plan(base)
        if not self._request.dry_run:
            self._refuse(planned)
        preview = self._result(planned)
        confirm(preview)
        if self._request.dry_run or (planned.is_empty and self._stored is None):
            return preview
        spec = {"iceberg": target.name, "rewrites": type(self._request.task).__name__}
        location = target.metadata.location
        with task_run(self._app, location, RunKind.REWRITE, spec, self._stored) as run:
            result = self._carry_out(planned)
            run.record(result.figures)
            return result

    def _plan(self, base: LoadedTable) -> _Planned:
        head = load_head(base)
        return _Planned(base, None) if head is None else self._planned(base, head)

    def _planned(self, base: LoadedTable, head: TableHead) -> _Planned:
        may_leave = is_any if self._stored is None else self._stored.names
        match self._request.task:
            case MergeManifests(target_bytes):
                return _Planned(base, plan_merge(head, target_bytes))
            case RemoveDanglingDeletes():
                return _Planned(base, plan_dangling(head, may_leave))
            case ExpirePartitions(column, before):
                found = plan_partition_expiry(head, column, before, may_leave)
                lines = [PartitionLine(name, *each) for name, each in found.partitions.items()]
                return _Planned(base, found.change, tuple(lines))
            case task:
                assert_never(task)

    def _refuse(self, planned: _Planned) -> None:
        refuse_expiry(planned.guards(), self._request.overrides, planned.base.name)

    def _carry_out(self, planned: _Planned) -> TableRewriteResult:
        for attempt in range(_ATTEMPTS):
            self._app.clock.sleep(_PAUSE.total_seconds() * (2**attempt - 1))
            base = self._handle.load()
            if base.location != planned.base.location:
                # What was confirmed was another state: the guards have to hold for this one.
                planned = self._plan(base)
                self._refuse(planned)
            if planned.change is None or planned.is_empty:
                return self._result(planned)
            draft, change = planned.change.draft(millis(self._app.clock.now()))
            try:
                outcome = self._handle.commit(base, change)
            except LakesweepError:
                draft.discard()  # nothing was committed
                raise
            match outcome.status:
                case CommitStatus.COMMITTED:
                    after = base.location if outcome.table is None else outcome.table.location
                    return self._result(planned, after, draft.snapshot)
                case CommitStatus.UNKNOWN:
                    raise _unknown(base.name, outcome.reason)
                case CommitStatus.REFUSED:
                    draft.discard()
                    raise RefusedError(
                        "catalog", f"{base.name}: the catalog refused: {outcome.reason}"
                    )
                case CommitStatus.CONFLICT | CommitStatus.UNCHANGED:
                    draft.discard()
        raise IncompleteError(
            f"{planned.base.name} was changed by other writers {_ATTEMPTS} times in a row; nothing"
            " was committed",
            hint="run the command again",
        )

    def _result(
        self, planned: _Planned, after: str | None = None, snapshot: int | None = None
    ) -> TableRewriteResult:
        lines = planned.partitions
        return TableRewriteResult(
            table=planned.base.name,
            metadata_before=planned.base.location,
            metadata_after=after,
            snapshot_id=snapshot,
            figures={} if planned.change is None else dict(planned.change.figures),
            partitions=msgspec.UNSET if lines is None else list(lines),
            guards=planned.guards() or msgspec.UNSET,
            dry_run=self._request.dry_run,
        )


def _batches(files: Sequence[FileFacts]) -> Iterator[pa.RecordBatch]:
    """Files by kind, as FILE_SCHEMA."""
    for kind in dict.fromkeys(each.kind for each in files):
        some = (each for each in files if each.kind is kind)
        yield file_batch(kind, ((each.path, each.size_bytes) for each in some))


def _unknown(table: str, reason: str | None) -> IncompleteError:
    return IncompleteError(
        f"{table}: it is not known whether the catalog took the change: {reason}",
        hint="run the command again: it looks at the table first",
    )
