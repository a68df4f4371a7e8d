"""Trim the metadata of Iceberg tables: shorten the log, and delete metadata files behind it.

A commit drops names from the log, and most writers leave the files behind for ever. They are found
in the table's metadata folder: files that are named like metadata, carry the uuid of this table,
and are neither current nor in the log. Young ones stay: a writer may be about to commit one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import (
    CommitStatus,
    LoadedTable,
    MetadataChange,
    TableHandle,
    commit_with_retries,
)
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import SetProperties
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.metadata import TableMetadata, load_metadata, read_file
from lakesweep.iceberg.purge import PurgePlan, execute_purge
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import DeleteRun
from lakesweep.operations.tables.iceberg import PurgeTableRequest, guarded_look, purge_scope
from lakesweep.operations.tables.purge_check import guard_gc_enabled, purge_check
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.operations.upkeep.table_upkeep import (
    UnexpiredTable,
    each_table,
    final_scope,
    found_alone,
    guard_upkeep,
)
from lakesweep.operations.upkeep.task_runs import StoredTask, task_deleter, task_run
from lakesweep.parallel import map_ordered
from lakesweep.runs.records import RunKind
from lakesweep.storage.address import identity, parse
from lakesweep.storage.deleting.outcome_totals import FailedFile, OutcomeTotals
from lakesweep.storage.file_batches import file_batch
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.object_store import ObjectInfo, Outcome
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.upkeep.proposal import table_metadata

#: A writer that looks whether its commit landed searches the log: shorter ones make it guess.
LEAST_LOG = 20
DEFAULT_GRACE = timedelta(days=7)
_PROPERTY = "write.metadata.previous-versions-max"
_NAME = re.compile(r"(?:\d+-.+|v(?P<version>\d+))(?:\.gz)?\.metadata\.json(?:\.gz)?")
_WORKERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimTablesRequest:
    """Tables whose metadata is trimmed.

    `keep` shortens the log to so many earlier files, now and from now on; None leaves it as it is.
    Files that were written within `grace` stay.
    """

    refs: tuple[str, ...] = ()
    catalog: str | None = None
    lake: str | None = None
    keep: int | None = None
    grace: timedelta = DEFAULT_GRACE
    rate: DeleteRate = UNLIMITED
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep < 1:
            raise UsageError(f"{self.keep} earlier files cannot be kept", hint="write --keep 20")


class TrimResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the metadata files of a table. `too_new` stay until they are older."""

    table: str
    metadata_before: str
    metadata_after: str | None
    log_before: int
    log_after: int
    found: int
    bytes_found: int
    deleted: int
    bytes_deleted: int
    absent: int = 0
    quarantined: int = 0
    bytes_quarantined: int = 0
    too_new: int = 0
    protected: int = 0
    failures: list[FailedFile] = []
    dry_run: bool

    @property
    def is_complete(self) -> bool:
        return not self.failures


def trim_tables(
    app: App,
    request: TrimTablesRequest,
    confirm: Confirm[TrimResult],
    io: Interaction = SILENT_IO,
) -> Iterator[TrimResult | UnexpiredTable]:
    """Trim the metadata of tables, one after another. An error concerns one table only."""
    with UpkeepSession(app, io=io) as session:
        yield from each_table(
            app,
            request,
            lambda ref: trim_table(app, ref, request, confirm, io, session=session),
        )


def trim_table(
    app: App,
    ref: str,
    request: TrimTablesRequest,
    confirm: Confirm[TrimResult],
    io: Interaction = SILENT_IO,
    *,
    stored: StoredTask | None = None,
    session: UpkeepSession | None = None,
    look: LookAtFiles | None = None,
) -> TrimResult:
    """Shorten the log of one table, and delete metadata files that nothing names.

    No file goes that a stored plan does not name, if there is one. `look` is shown the files (as
    FILE_SCHEMA) before they go, with the location of the table.
    """
    if session is None:
        with UpkeepSession(app, io=io) as own:
            return trim_table(app, ref, request, confirm, io, stored=stored, session=own, look=look)
    handle = open_table(app.iceberg, ref, clock=app.clock)
    trim = _Trim(app, handle, app.iceberg.find(ref), request, io, session, stored)
    return trim.run(confirm, look)


LookAtFiles = Callable[[str, Iterator[pa.RecordBatch]], None]


@dataclass(frozen=True)
class _Old:
    files: tuple[ObjectInfo, ...]
    too_new: int


class _Trim:
    def __init__(
        self,
        app: App,
        handle: TableHandle,
        target: TargetTable,
        request: TrimTablesRequest,
        io: Interaction,
        session: UpkeepSession,
        stored: StoredTask | None,
    ) -> None:
        self._app, self._handle, self._target = app, handle, target
        self._session, self._stored = session, stored
        self._request, self._io = request, io
        self._now = app.clock.now()
        self._totals = OutcomeTotals()

    def run(self, confirm: Confirm[TrimResult], look: LookAtFiles | None) -> TrimResult:
        base = self._handle.load()
        self._guard(base)
        after = self._shortened(base) or table_metadata(base.location, base.document)
        old = self._old_files(base, after)
        with ExitStack() as stack:
            plan = stack.enter_context(PurgePlan(after))
            files = _batch(base.location, old.files)
            plan.add(files if self._stored is None else self._stored.among(files))
            if plan.total_files:
                purge = self._purge
                found = found_alone(self._target)
                scope = purge_scope(self._app, self._target, found, plan, purge)
                check = stack.enter_context(
                    purge_check(
                        self._app,
                        scope,
                        plan.every(),
                        progress=self._io.progress,
                        session=self._session,
                        recalls=True,
                    )
                )
                plan.spare(guarded_look(check, found, self._target, purge).kept)
            preview = self._result(base, None, after, plan, old)
            if look is not None:
                look(self._target.metadata.location, plan.every())
            confirm(preview)
            is_idle = not plan.total_files and self._shortened(base) is None
            is_idle &= self._stored is None
            if self._request.dry_run or is_idle:
                return preview
            spec = {"iceberg": self._target.name, "trims": "metadata"}
            location = self._target.metadata.location
            with (
                task_run(
                    self._app,
                    location,
                    RunKind.REWRITE,
                    spec,
                    self._stored,
                    partial(getattr, self._totals, "failed"),
                ) as run,
                run.counting(self._totals),
            ):
                return self._carry_out(run, base, after, plan, old)

    def _guard(self, base: LoadedTable) -> None:
        overrides = self._request.overrides
        guard_gc_enabled(self._target, overrides)
        guard_upkeep(self._handle, self._target.name, base, overrides)
        keep = self._request.keep
        if keep is not None and keep < LEAST_LOG and GuardName.SHORT_RETENTION not in overrides:
            raise RefusedError(
                GuardName.SHORT_RETENTION,
                f"with {keep} earlier files in the log of {self._target.name}, a writer may not"
                " find its own commit, and take it for failed",
                hint=f"keep {LEAST_LOG} or more",
                overrides=[GuardName.SHORT_RETENTION],
            )

    def _change(self, table: LoadedTable) -> MetadataChange | None:
        keep = self._request.keep
        if keep is None or table.document.properties().get(_PROPERTY) == str(keep):
            return None
        return MetadataChange.of(table.document, [SetProperties(updates={_PROPERTY: str(keep)})])

    def _shortened(self, base: LoadedTable) -> TableMetadata | None:
        """The table as its commit would leave it; None if there is nothing to commit."""
        change = self._change(base)
        if change is None:
            return None
        document = apply_table_updates(
            base.document, change.updates, now_ms=millis(self._now), location=base.location
        )
        return table_metadata(base.location, document)

    def _old_files(self, base: LoadedTable, after: TableMetadata) -> _Old:
        """Metadata files of this table that nothing names, and that are old enough."""
        folder = base.location.rpartition("/")[0] + "/"
        address = parse(folder)
        named = {identity(path) for path in (base.location, after.path, *after.log)}
        least = self._hinted(base, after)
        infos = []
        for name, info in list_level(base.stores, address).files.items():
            found = _NAME.fullmatch(name)
            is_numbered = found is not None and found["version"] is not None
            if found is None or identity(address.base + info.key) in named:
                continue
            # Readers of a folder count up from the hint: what it may lead to stays.
            if not is_numbered or (least is not None and int(found["version"]) < least):
                infos.append(info)
        limit = self._now - self._request.grace
        aged = [each for each in infos if _is_before(each.modified, limit)]
        own = map_ordered(partial(_is_own, base, after), aged, workers=_WORKERS)
        old = [info for info, is_own in zip(aged, own, strict=True) if is_own]
        return _Old(tuple(old), len(infos) - len(aged))

    def _hinted(self, base: LoadedTable, after: TableMetadata) -> int | None:
        if after.version_hint is None:
            return None
        try:
            return int(read_file(base.stores, after.version_hint).decode().strip())
        except (LakesweepError, ValueError):
            return None

    def _carry_out(
        self, run: DeleteRun, base: LoadedTable, after: TableMetadata, plan: PurgePlan, old: _Old
    ) -> TrimResult:
        committed = self._commit()
        latest = self._handle.load()
        stores = FencedStores(latest.stores.within(after.location), run.fence)
        delete = task_deleter(
            self._app,
            run,
            stores,
            self._target.metadata.location,
            self._request.rate,
            self._stored,
            None if self._stored is None else self._stored.quarantine_plan,
            plan.every,
        )
        if plan.total_files:
            scope = final_scope(self._app, self._target, plan, self._purge)
            with (
                purge_check(
                    self._app,
                    scope,
                    plan.every(),
                    progress=self._io.progress,
                    session=self._session,
                ) as check,
                check.deletion(delete) as deletion,
            ):
                execute_purge(plan, deletion, self._totals, progress=self._io.progress)
        left = table_metadata(latest.location, latest.document)
        return self._result(base, committed, left, plan, old)

    def _commit(self) -> str | None:
        outcome = commit_with_retries(self._handle, self._change, clock=self._app.clock)
        match outcome.status:
            case CommitStatus.COMMITTED:
                return None if outcome.table is None else outcome.table.location
            case CommitStatus.UNCHANGED:
                return None
            case CommitStatus.CONFLICT | CommitStatus.UNKNOWN | CommitStatus.REFUSED:
                raise IncompleteError(
                    f"{self._target.name}: the log was not shortened: {outcome.reason}; no file"
                    " was deleted",
                    hint="run the command again",
                )

    @property
    def _purge(self) -> PurgeTableRequest:
        return PurgeTableRequest(self._target.name, overrides=self._request.overrides)

    def _result(
        self,
        base: LoadedTable,
        committed: str | None,
        after: TableMetadata,
        plan: PurgePlan,
        old: _Old,
    ) -> TrimResult:
        report = self._totals.report()
        is_done = self._totals.found > 0
        return TrimResult(
            table=base.name,
            metadata_before=base.location,
            metadata_after=committed,
            log_before=len(base.document.metadata_log()),
            log_after=len(after.log),
            found=plan.total_files,
            bytes_found=plan.total_bytes,
            deleted=report.deleted if is_done else 0,
            bytes_deleted=report.bytes_deleted,
            absent=report.absent,
            quarantined=self._totals.counts[Outcome.QUARANTINED],
            bytes_quarantined=report.bytes_quarantined or 0,
            too_new=old.too_new,
            protected=plan.protected,
            failures=report.failures,
            dry_run=self._request.dry_run,
        )


def _is_before(modified: datetime | None, limit: datetime) -> bool:
    return modified is not None and modified < limit


def _is_own(base: LoadedTable, after: TableMetadata, info: ObjectInfo) -> bool:
    """Whether a file is earlier metadata of the same table: names alone prove nothing."""
    path = parse(base.location).base + info.key
    try:
        found = load_metadata(base.stores, path)
    except LakesweepError:
        return False
    if not isinstance(found, TableMetadata) or found.uuid is None or found.uuid != after.uuid:
        return False
    # One that is newer than the table may be a commit under way.
    newest = after.updated_ms
    return newest is not None and found.updated_ms is not None and found.updated_ms <= newest


def _batch(location: str, files: tuple[ObjectInfo, ...]) -> Any:
    base = parse(location).base
    rows = ((base + each.key, each.size_bytes) for each in files)
    return file_batch(IcebergKind.METADATA_LOG, rows)
