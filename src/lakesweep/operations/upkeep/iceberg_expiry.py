"""Expire snapshots of Iceberg tables, and delete the files that only they held.

The order survives a crash at any point, and shows no reader half a table:

1. read everything the table reaches, decide, ask all other roots, and show it;
2. take the lease of the table, load it again and decide again, from nothing;
3. write the journal of the files, and have the store vouch for it;
4. commit, and look at what the catalog really did;
5. load the table again, ask all roots, the table among them, and delete what none of them reaches:
   content first, then manifests, lists and statistics;
6. remove the journal.

Before step 4 nothing has changed; after it the next run finishes what the journal says. If the
commit took a ref along that the expiry does not know, nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.errors import IncompleteError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    TableHandle,
)
from lakesweep.iceberg.file_kinds import CONTENT_KINDS
from lakesweep.iceberg.purge import PurgePlan
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.marks.unreadable import Strict
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import DeleteRun
from lakesweep.operations.tables.iceberg import (
    guarded_look,
    purge_scope,
)
from lakesweep.operations.tables.purge_check import guard_gc_enabled
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.operations.upkeep.expiry_deletion import (
    ExpiryDeletion,
    forget_journal,
    ref_lost,
)
from lakesweep.operations.upkeep.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
    preview_of,
    result_of,
)
from lakesweep.operations.upkeep.table_upkeep import (
    UnexpiredTable,
    each_table,
    found_alone,
    guard_upkeep,
)
from lakesweep.operations.upkeep.task_runs import UPKEEP_JOB, StoredTask, task_run
from lakesweep.runs.records import RunKind, table_lake
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.deleting.journal import (
    Journal,
    JournalLog,
    find_journals,
)
from lakesweep.sweep.guards import Guard
from lakesweep.upkeep.expiry_guards import check_expiry, refuse_expiry
from lakesweep.upkeep.expiry_journal import (
    journaled,
    write_expiry,
)
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.proposal import ExpiryProposal, load_history, propose

_ATTEMPTS = 5
_PAUSE = timedelta(milliseconds=100)


def expire_tables(
    app: App,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
) -> Iterator[IcebergExpiryResult | UnexpiredTable]:
    """Expire snapshots of tables, one after another. An error concerns one table only."""
    with UpkeepSession(app, request.engine, io) as session:
        yield from each_table(
            app,
            request,
            lambda ref: expire_table(app, ref, request, confirm, io, session=session),
        )


def expire_table(
    app: App,
    ref: str,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
    stored: StoredTask | None = None,
    session: UpkeepSession | None = None,
) -> IcebergExpiryResult:
    """Expire snapshots of one table; no more than a stored plan says, if there is one."""
    if session is None:
        with UpkeepSession(app, request.engine, io) as own:
            return expire_table(app, ref, request, confirm, io, stored, own)
    handle = open_table(app.iceberg, ref, metadata_out=request.metadata_out, clock=app.clock)
    target = app.iceberg.find(ref)
    base = handle.load()
    _guard(handle, target, base, request)
    with session.index(base, load_history(base)) as index:
        expiry = _TableExpiry(app, handle, target, request, io, session, index, stored)
        return expiry.run(base, confirm)


def _guard(
    handle: TableHandle, target: TargetTable, base: LoadedTable, request: ExpireTablesRequest
) -> None:
    """Refuse tables that must not be expired, or not here."""
    guard_gc_enabled(target, request.overrides)
    guard_upkeep(handle, target.name, base, request.overrides)


class _TableExpiry:
    """One expiry of one table. The time is read once, so that all attempts decide by the same."""

    def __init__(
        self,
        app: App,
        handle: TableHandle,
        target: TargetTable,
        request: ExpireTablesRequest,
        io: Interaction,
        session: UpkeepSession,
        index: FileIndex,
        stored: StoredTask | None = None,
    ) -> None:
        self._app = app
        self._handle = handle
        self._target = target
        self._request = request
        self._index = index
        self._stored = stored
        self._now_ms = millis(app.clock.now())
        self._deletion = ExpiryDeletion(app, handle, target, request, io, session, index, stored)

    def run(self, base: LoadedTable, confirm: Confirm[IcebergExpiryPreview]) -> IcebergExpiryResult:
        proposal = self._propose(base)
        interrupted = find_journals(journaled(base), self._known).interrupted
        with ExitStack() as plans:
            plan = plans.enter_context(self._planned(proposal))
            if self._request.dry_run and not self._request.keep_files:
                self._index.read_lists(proposal.before)  # what each snapshot holds is shown
                self._index.read_manifests()
            guards = self._guards(proposal, plan)
            preview = preview_of(
                proposal, plan, self._index, self._request, guards, unfinished=len(interrupted)
            )
            if not self._request.dry_run:
                refuse_expiry(guards, self._request.overrides, self._target.name)
            confirm(preview)
            is_idle = proposal.is_empty and not interrupted and self._stored is None
            if self._request.dry_run or is_idle:
                return preview.planned
            with self._run() as run, run.counting(self._deletion.totals):
                return self._carry_out(run, proposal, plan)

    def _run(self) -> AbstractContextManager[DeleteRun]:
        location = self._target.metadata.location
        spec = {"iceberg": self._target.name, "expires": "snapshots"}
        failed = partial(getattr, self._deletion.totals, "failed")
        return task_run(self._app, location, RunKind.EXPIRE, spec, self._stored, failed)

    def _propose(self, base: LoadedTable) -> ExpiryProposal:
        return propose(base, self._request.terms, self._now_ms)

    def _known(self, address: str) -> str | None:
        from lakesweep.runs.journals import vouched_hash

        lake = table_lake(UPKEEP_JOB, self._target.metadata.location)
        return vouched_hash(self._app.known_runs, lake, address)

    @contextmanager
    def _planned(self, proposal: ExpiryProposal) -> Iterator[PurgePlan]:
        """The files that a proposal frees, without those that other roots reference."""
        with PurgePlan(proposal.before) as plan:
            if not (self._request.keep_files or proposal.is_empty):
                self._find_files(proposal, plan)
            if plan.total_files:
                found, purge = found_alone(self._target), self._deletion.purge_request
                scope = purge_scope(self._app, self._target, found, plan, purge)
                with self._deletion.check(proposal.base, scope, plan, recalls=True) as check:
                    plan.spare(guarded_look(check, found, self._target, purge).kept)
            yield plan

    def _guards(self, proposal: ExpiryProposal, plan: PurgePlan) -> list[Guard]:
        freed = sum(plan.files[kind] for kind in CONTENT_KINDS)
        reached = self._index.count_content(proposal.before) if freed else 0
        return list(check_expiry(proposal.decision, freed, reached))

    def _find_files(self, proposal: ExpiryProposal, plan: PurgePlan) -> None:
        index, before, after = self._index, proposal.before, proposal.after
        index.read_lists(before)
        for batch in unique_files(index.freed(before, after)):
            plan.add(batch if self._stored is None else self._stored.among(batch))
        for problem in index.problems(after):
            Strict().meet(
                replace(problem, hint="repair the table, or add --keep-files to delete no file")
            )
        plan.problems = index.problems(before)

    def _carry_out(
        self, run: DeleteRun, proposal: ExpiryProposal, plan: PurgePlan
    ) -> IcebergExpiryResult:
        from lakesweep.runs.journals import SessionJournals

        log = SessionJournals(self._app.runs, run.sessions[0], run.fence)
        self._deletion.resume(run, log)
        with ExitStack() as plans:
            for attempt in range(_ATTEMPTS):
                self._app.clock.sleep(_PAUSE.total_seconds() * (2**attempt - 1))
                # Under the lease, and again after each conflict: a decision only holds for the
                # document that it was made from.
                base = self._handle.load()
                if base.location != proposal.base.location:
                    proposal = self._propose(base)
                    plan = plans.enter_context(self._planned(proposal))
                    # What was confirmed was another state: the guards have to hold for this one.
                    guards = self._guards(proposal, plan)
                    refuse_expiry(guards, self._request.overrides, self._target.name)
                if proposal.is_empty:
                    return self._result(proposal, None)
                # The journal before the commit: once the snapshots are gone, nothing else names
                # their files.
                journal = self._journal(proposal, plan, log)
                outcome = self._commit(proposal, journal, log)
                if outcome is not None:
                    latest = self._latest(outcome.table)
                    self._deletion.delete(run, latest, plan, journal, log)
                    return self._result(proposal, outcome.table)
        raise IncompleteError(
            f"{self._target.name} was changed by other writers {_ATTEMPTS} times in a row; nothing"
            " was expired",
            hint="run the command again",
        )

    def _journal(
        self, proposal: ExpiryProposal, plan: PurgePlan, log: JournalLog
    ) -> Journal | None:
        if not plan.total_files:
            return None
        journal = write_expiry(proposal, log, plan.every(), self._deletion.quarantine)
        try:
            self._guard_clock(journal)
        except RefusedError:
            forget_journal(journal, log)
            raise
        return journal

    def _guard_clock(self, journal: Journal) -> None:
        """Refuse if our clock is ahead of that of the store, which has just written the journal."""
        from lakesweep.sweep.guards import check_clock, clock_skew

        if self._request.terms.retention.only_ids or GuardName.CLOCK in self._request.overrides:
            return
        address = parse(f"{journal.address}_dataset.json")
        written = journal.table.stores.open(address).head(address.key).modified
        for guard in check_clock(clock_skew(self._app.clock.now(), written)) if written else ():
            raise RefusedError(
                guard.name,
                f"{self._target.name}: {guard.message}; nothing was expired",
                hint="set the clock of this machine",
            )

    def _commit(
        self, proposal: ExpiryProposal, journal: Journal | None, log: JournalLog
    ) -> CommitOutcome | None:
        """Commit; None after a conflict. An outcome that is not clear deletes nothing."""
        # The last look at the lease before something changes. After the commit only deletes follow,
        # and each of them asks the fence.
        log.check()
        outcome = self._handle.commit(proposal.base, proposal.change)
        name = self._target.name
        match outcome.status:
            case CommitStatus.UNKNOWN:
                # The journal stays: the next run finds out what happened.
                raise IncompleteError(
                    f"{name}: it is not known whether the catalog took the change:"
                    f" {outcome.reason}; no file was deleted",
                    hint="run the command again: it looks what happened, and goes on from there",
                )
            case CommitStatus.CONFLICT | CommitStatus.UNCHANGED:
                forget_journal(journal, log)
                return None
            case CommitStatus.REFUSED:
                forget_journal(journal, log)
                raise RefusedError("catalog", f"{name}: the catalog refused: {outcome.reason}")
            case CommitStatus.COMMITTED:
                if outcome.lost_refs or outcome.base is None:
                    forget_journal(journal, log)
                    base = None if outcome.base is None else outcome.base.location
                    raise ref_lost(name, sorted(outcome.lost_refs), base)
        return outcome

    def _latest(self, committed: LoadedTable | None) -> LoadedTable:
        """The table as it is now; without a catalog, nothing but the commit says where that is."""
        if self._target.entry is None and committed is not None:
            return committed
        return self._handle.load()

    def _result(self, proposal: ExpiryProposal, after: LoadedTable | None) -> IcebergExpiryResult:
        plan = None if self._stored is None else self._stored.record.plan
        return result_of(proposal, after, self._deletion.totals, self._deletion.gone, plan)
