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

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.clock import millis
from lakesweep.config import IcebergCatalogRoot
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    TableHandle,
)
from lakesweep.iceberg.file_kinds import CONTENT_KINDS
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, UnresolvedTable
from lakesweep.iceberg.purge import PurgePlan, execute_purge
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.marks.unreadable import Strict
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import (
    DeleteRun,
    quarantine_of_table,
    table_run,
)
from lakesweep.operations.tables.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
    preview_of,
    result_of,
)
from lakesweep.operations.tables.iceberg import (
    PurgeTableRequest,
    guarded_look,
    purge_scope,
    purge_target,
)
from lakesweep.operations.tables.purge_check import PurgeScope, guard_gc_enabled, purge_check
from lakesweep.runs.records import PlanRecord, RunKind, run_folder, table_lake
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import Deleter, make_deleter
from lakesweep.storage.deleting.journal import (
    Journal,
    JournalLog,
    abandoned_journals,
    find_journals,
)
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import quarantine_files
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.object_store import Outcome, StoreOpener
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.guards import Guard
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.paths.folder_map import FolderMap
from lakesweep.sweep.references import PurgeTarget, listing_rows
from lakesweep.units import format_some
from lakesweep.upkeep.expiry_guards import check_expiry, refuse_expiry
from lakesweep.upkeep.expiry_journal import (
    InterruptedExpiry,
    InterruptedState,
    examine,
    journaled,
    write_expiry,
)
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.proposal import ExpiryProposal, load_history, propose, table_metadata

#: Everything that changes a table in place takes the same lease: its tasks would undo each other.
UPKEEP_JOB = "iceberg-expiry"
_DELETES = "delete"
_ATTEMPTS = 5
_PAUSE = timedelta(milliseconds=100)


@dataclass(frozen=True)
class UnexpiredTable:
    """A table that was not expired, and why. The others are not affected."""

    table: str
    error: LakesweepError


def expire_tables(
    app: App,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
) -> Iterator[IcebergExpiryResult | UnexpiredTable]:
    """Expire snapshots of tables, one after another. An error concerns one table only."""
    for ref in table_refs(app, request):
        if isinstance(ref, UnexpiredTable):
            yield ref
            continue
        try:
            yield expire_table(app, ref, request, confirm, io)
        except LakesweepError as error:
            yield UnexpiredTable(ref, error)


class TableChoice(Protocol):
    """Tables by name or address, all of a catalog, or all of a lake's catalogs."""

    @property
    def refs(self) -> tuple[str, ...]: ...

    @property
    def catalog(self) -> str | None: ...

    @property
    def lake(self) -> str | None: ...


def table_refs(app: App, request: TableChoice) -> Iterator[str | UnexpiredTable]:
    """The tables of a request; those that their catalog cannot tell, with the error."""
    yield from request.refs
    catalogs = [] if request.catalog is None else [request.catalog]
    if request.lake is not None:
        roots = app.lake(request.lake).section.roots
        catalogs += [root.name for root in roots if isinstance(root, IcebergCatalogRoot)]
    for catalog in dict.fromkeys(catalogs):
        for found in app.iceberg.open(catalog).survey():
            match found:
                case CatalogEntry():
                    if not found.is_view:
                        yield found.full_name
                case UnresolvedTable():
                    yield UnexpiredTable(found.full_name, found.error)
                case ForeignTable():
                    pass


@dataclass(frozen=True)
class StoredExpiry:
    """A stored plan that an expiry carries out.

    Nothing is deleted but its `files`. `spec` is what the run records of how it was asked for, and
    `quarantine` whether files are moved to the quarantine of the plan.
    """

    record: PlanRecord
    files: HashSet
    spec: Mapping[str, Any]
    quarantine: bool = False


def expire_table(
    app: App,
    ref: str,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
    stored: StoredExpiry | None = None,
) -> IcebergExpiryResult:
    """Expire snapshots of one table; no more than a stored plan says, if there is one."""
    handle = open_table(app.iceberg, ref, metadata_out=request.metadata_out, clock=app.clock)
    target = app.iceberg.find(ref)
    base = handle.load()
    _guard(handle, target, base, request)
    with FileIndex(base.stores, progress=io.progress) as index:
        expiry = _TableExpiry(app, handle, target, request, io, index, stored)
        return expiry.run(base, confirm)


def _guard(
    handle: TableHandle, target: TargetTable, base: LoadedTable, request: ExpireTablesRequest
) -> None:
    """Refuse tables that must not be expired, or not here."""
    guard_gc_enabled(target, request.overrides)
    guard_upkeep(handle, target.name, base, request.overrides)


def guard_upkeep(
    handle: TableHandle, name: str, base: LoadedTable, overrides: Collection[str]
) -> None:
    """Refuse tables that another service keeps, and those that cannot be read."""
    other = handle.expired_by(base)
    if other is not None and GuardName.FOREIGN not in overrides:
        raise RefusedError(
            GuardName.FOREIGN,
            f"{name} is expired by another service: {other}",
            hint="leave it to that service; if it is switched off, add --override foreign",
        )
    if load_history(base).is_encrypted:
        raise RefusedError(
            "encrypted",
            f"{name} is encrypted: what its snapshots hold cannot be read",
            hint="use an engine that has the keys",
        )


class _TableExpiry:
    """One expiry of one table. The time is read once, so that all attempts decide by the same."""

    def __init__(
        self,
        app: App,
        handle: TableHandle,
        target: TargetTable,
        request: ExpireTablesRequest,
        io: Interaction,
        index: FileIndex,
        stored: StoredExpiry | None = None,
    ) -> None:
        self._app = app
        self._handle = handle
        self._target = target
        self._request = request
        self._io = io
        self._index = index
        self._stored = stored
        self._now_ms = millis(app.clock.now())
        self._totals = OutcomeTotals()
        self._gone: Counter[tuple[str, str]] = Counter()

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
            with self._run() as run, run.counting(self._totals):
                return self._carry_out(run, proposal, plan)

    @contextmanager
    def _run(self) -> Iterator[DeleteRun]:
        """A run of this table; it takes the stored plan, and closes it unless something failed."""
        location, stored = self._target.metadata.location, self._stored
        spec = {"iceberg": self._target.name, "expires": "snapshots"}
        if stored is None:
            with table_run(self._app, UPKEEP_JOB, location, RunKind.EXPIRE, spec) as run:
                yield run
            return
        spec, name = {**spec, **stored.spec}, stored.record.plan
        with table_run(self._app, UPKEEP_JOB, location, RunKind.APPLY, spec, name) as run:
            runs = self._app.runs
            taken = runs.claim(name, run.sessions[0].record.run, resumes=stored.record.run)
            yield run
            if not self._totals.failed:
                runs.close_plan(taken)

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
                found, purge = self._found, self._purge_request
                scope = purge_scope(self._app, self._target, found, plan, purge)
                with purge_check(
                    self._app, scope, plan.every(), progress=self._io.progress
                ) as check:
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
            plan.add(self._planned_only(batch))
        for problem in index.problems(after):
            Strict().meet(
                replace(problem, hint="repair the table, or add --keep-files to delete no file")
            )
        plan.problems = index.problems(before)

    def _planned_only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The files of a batch that the stored plan names, if there is one."""
        if self._stored is None:
            return batch
        return batch.filter(pa.array(self._stored.files.contains(file_hashes(batch["path"]))))

    @property
    def _found(self) -> PurgeTarget:
        return found_alone(self._target)

    @property
    def _purge_request(self) -> PurgeTableRequest:
        return PurgeTableRequest(self._target.name, overrides=self._request.overrides)

    def _carry_out(
        self, run: DeleteRun, proposal: ExpiryProposal, plan: PurgePlan
    ) -> IcebergExpiryResult:
        from lakesweep.runs.journals import SessionJournals

        log = SessionJournals(self._app.runs, run.sessions[0], run.fence)
        self._resume(run, log)
        with ExitStack() as plans:
            for attempt in range(_ATTEMPTS):
                self._app.clock.sleep(_PAUSE.total_seconds() * (2**attempt - 1))
                base = self._handle.load()
                if base.location != proposal.base.location:
                    proposal = self._propose(base)
                    plan = plans.enter_context(self._planned(proposal))
                    # What was confirmed was another state: the guards have to hold for this one.
                    guards = self._guards(proposal, plan)
                    refuse_expiry(guards, self._request.overrides, self._target.name)
                if proposal.is_empty:
                    return self._result(proposal, None)
                journal = self._journal(proposal, plan, log)
                outcome = self._commit(proposal, journal, log)
                if outcome is not None:
                    latest = self._latest(outcome.table)
                    self._delete(run, latest, plan, journal, log, self._quarantine)
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
        journal = write_expiry(proposal, log, plan.every(), self._quarantine)
        try:
            self._guard_clock(journal)
        except RefusedError:
            _forget(journal, log)
            raise
        return journal

    @property
    def _quarantine(self) -> str | None:
        """The plan in whose quarantine files go, if they do."""
        stored = self._stored
        return stored.record.plan if stored is not None and stored.quarantine else None

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
                _forget(journal, log)
                return None
            case CommitStatus.REFUSED:
                _forget(journal, log)
                raise RefusedError("catalog", f"{name}: the catalog refused: {outcome.reason}")
            case CommitStatus.COMMITTED:
                if outcome.lost_refs or outcome.base is None:
                    _forget(journal, log)
                    base = None if outcome.base is None else outcome.base.location
                    raise _ref_lost(name, sorted(outcome.lost_refs), base)
        return outcome

    def _latest(self, committed: LoadedTable | None) -> LoadedTable:
        """The table as it is now; without a catalog, nothing but the commit says where that is."""
        if self._target.entry is None and committed is not None:
            return committed
        return self._handle.load()

    def _delete(
        self,
        run: DeleteRun,
        latest: LoadedTable,
        plan: PurgePlan,
        journal: Journal | None,
        log: JournalLog,
        quarantine: str | None,
    ) -> None:
        """Delete what the table does not reach any more and no other root references."""
        for problem in plan.problems:
            self._totals.fail(problem.path, f"{problem.state}: {problem.reason}")
        if journal is None:
            return
        metadata = table_metadata(latest.location, latest.document)
        reached = self._index.reached_among(plan.every(), metadata)
        for problem in self._index.problems(metadata):
            Strict().meet(problem)
        plan.spare(reached)
        failed = self._totals.failed
        stores = FencedStores(latest.stores.within(metadata.location), run.fence)
        delete = self._deleter(run, stores, plan, quarantine)
        with (
            purge_check(
                self._app, self._final_scope(plan), plan.every(), progress=self._io.progress
            ) as check,
            check.deletion(delete) as deletion,
        ):
            execute_purge(
                plan,
                _counting(deletion, self._gone),
                self._totals,
                progress=self._io.progress,
            )
        if self._totals.failed == failed:
            _forget(journal, log)

    def _deleter(
        self, run: DeleteRun, stores: StoreOpener, plan: PurgePlan, quarantine: str | None
    ) -> Deleter:
        """Deletes files, or moves them to the quarantine of a plan."""
        rate = self._request.rate
        if quarantine is None:
            return make_deleter(stores, self._app.clock, rate)
        if self._stored is not None and quarantine == self._stored.record.plan:
            # Before the first move: whatever is quarantined is in a list that the store knows.
            session, address = run.sessions[0], self._stored.record.address
            folder = f"{run_folder(address, session.record.run)}/{_DELETES}"
            dataset = write_dataset(self._app.stores, folder, LISTING, listing_rows(plan.every()))
            session.record = self._app.runs.vouch(session.record, _DELETES, dataset.sha256)
        places = quarantine_of_table(self._app, self._target.metadata.location, quarantine)
        limiter = DeleteLimiter(self._app.clock, rate)
        return lambda batches: quarantine_files(stores, batches, places, limiter=limiter)

    def _final_scope(self, plan: PurgePlan) -> PurgeScope:
        return final_scope(self._app, self._target, plan, self._purge_request)

    def _resume(self, run: DeleteRun, log: JournalLog) -> None:
        """Finish what dead runs began, as far as the table shows that their commit was sound."""
        base = self._handle.load()
        for journal in abandoned_journals(journaled(base), log):
            _forget(journal, log)
        for journal in find_journals(journaled(base), log.known).interrupted:
            found = examine(journal, base)
            match found.state:
                case InterruptedState.COMMITTED:
                    self._finish(run, found, log)
                case InterruptedState.NOT_COMMITTED:
                    _forget(journal, log)
                case InterruptedState.REF_LOST | InterruptedState.UNKNOWN:
                    _forget(journal, log)
                    raise _ref_lost(self._target.name, found.lost_refs, found.base)

    def _finish(self, run: DeleteRun, found: InterruptedExpiry, log: JournalLog) -> None:
        with PurgePlan(self._target.metadata) as plan:
            for batch in unique_files(found.files()):
                plan.add(batch)
            self._io.notify(f"finishing an interrupted expiry: {plan.total_files:,} files")
            latest = self._handle.load()
            self._delete(run, latest, plan, found.journal, log, found.quarantine)

    def _result(self, proposal: ExpiryProposal, after: LoadedTable | None) -> IcebergExpiryResult:
        plan = None if self._stored is None else self._stored.record.plan
        return result_of(proposal, after, self._totals, self._gone, plan)


def found_alone(target: TargetTable) -> PurgeTarget:
    """The table as roots know it. No commit without a catalog moves the entry of a catalog."""
    return replace(purge_target(target), file_alone=True)


def final_scope(
    app: App, target: TargetTable, plan: PurgePlan, request: PurgeTableRequest
) -> PurgeScope:
    """All roots, the table itself among them, as far as a catalog lists it."""
    scope = purge_scope(app, target, found_alone(target), plan, request)
    if target.entry is None:
        return scope
    rules = partial(_without_own_claims, target.name, scope.rules)
    return replace(scope, target=None, rules=rules)


def _without_own_claims(
    name: str, rules: Callable[[JudgeRules], JudgeRules], judge: JudgeRules
) -> JudgeRules:
    """Rules by which a table does not protect its own write paths as another table's."""
    tables = judge.tables
    others = [(tables.folder(number), each) for number, each in tables.claims if each != name]
    return rules(replace(judge, tables=FolderMap(others)))


def _counting(delete: Deleter, gone: Counter[tuple[str, str]]) -> Deleter:
    """A deleter that counts by outcome and kind what it deleted or moved."""

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind in batch["kind"].unique().to_pylist():
                for outcome in delete([batch.filter(pc.equal(batch["kind"], kind))]):
                    for each in (Outcome.DELETED, Outcome.QUARANTINED):
                        is_so = pc.equal(outcome["outcome"], each.value)
                        gone[each.value, kind] += pc.sum(is_so).as_py() or 0
                    yield outcome

    return counted


def _forget(journal: Journal | None, log: JournalLog) -> None:
    """Remove a journal: first its files, then the record, or it would look planted."""
    if journal is not None:
        journal.remove()
        log.forget(journal.address)


def _ref_lost(table: str, refs: Iterable[str], base: str | None) -> IncompleteError:
    names = format_some(list(refs))
    if not names or base is None:
        return IncompleteError(
            f"{table}: it cannot be told whether the commit of an expiry took a branch or tag"
            " along; no file was deleted",
            hint="check the branches and tags of the table; a sweep finds what is left over",
        )
    return IncompleteError(
        f"{table}: the catalog removed {names}, created while the snapshots were expired;"
        " no file was deleted",
        hint=f"restore it by registering the metadata before the commit again: {base}",
    )
