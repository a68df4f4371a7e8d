"""Delete what an expiry of snapshots freed, now or for a run that died before it could.

Nothing here decides what expires: the commit has, and the journal says which files only expired
snapshots held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.errors import IncompleteError
from lakesweep.iceberg.commits.table_handle import LoadedTable, TableHandle
from lakesweep.iceberg.purge import PurgePlan, execute_purge
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.marks.unreadable import Strict
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.tables.delete_runs import DeleteRun
from lakesweep.operations.tables.iceberg import PurgeTableRequest
from lakesweep.operations.tables.purge_check import PurgeCheck, PurgeScope, purge_check
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest
from lakesweep.operations.upkeep.table_upkeep import final_scope
from lakesweep.operations.upkeep.task_runs import StoredTask, task_deleter
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.deleting.journal import (
    Journal,
    JournalLog,
    abandoned_journals,
    find_journals,
)
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.wrappers.fenced import FencedStores
from lakesweep.units import format_some
from lakesweep.upkeep.expiry_journal import (
    InterruptedExpiry,
    InterruptedState,
    examine,
    journaled,
)
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.proposal import load_history, table_metadata


class ExpiryDeletion:
    """The deletes of one expiry: `totals` counts outcomes, and `gone` files by outcome and kind."""

    def __init__(
        self,
        app: App,
        handle: TableHandle,
        target: TargetTable,
        request: ExpireTablesRequest,
        io: Interaction,
        session: UpkeepSession,
        index: FileIndex,
        stored: StoredTask | None,
    ) -> None:
        self._app = app
        self._handle = handle
        self._target = target
        self._request = request
        self._io = io
        self._session = session
        self._index = index
        self._stored = stored
        self.totals = OutcomeTotals()
        self.gone: Counter[tuple[str, str]] = Counter()

    @property
    def quarantine(self) -> str | None:
        """The plan in whose quarantine files go, if they do."""
        return None if self._stored is None else self._stored.quarantine_plan

    @property
    def purge_request(self) -> PurgeTableRequest:
        """The same deletes as a purge, for the checks that both share."""
        return PurgeTableRequest(self._target.name, overrides=self._request.overrides)

    def check(
        self, table: LoadedTable, scope: PurgeScope, plan: PurgePlan, *, recalls: bool = False
    ) -> AbstractContextManager[PurgeCheck]:
        """A check of the planned files, on the engine for this table.

        One that `recalls` takes lists of roots from the session: for previews, never for deletes.
        """
        return purge_check(
            self._app,
            scope,
            plan.every(),
            progress=self._io.progress,
            session=self._session,
            engine=self._session.engine(load_history(table)),
            recalls=recalls,
        )

    def delete(
        self,
        run: DeleteRun,
        latest: LoadedTable,
        plan: PurgePlan,
        journal: Journal | None,
        log: JournalLog,
    ) -> None:
        """Delete or set aside what the commit of this expiry freed."""
        self._delete(run, latest, plan, journal, log, self.quarantine)

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
            self.totals.fail(problem.path, f"{problem.state}: {problem.reason}")
        if journal is None:
            return
        # From the table as it is after the commit, not as it was planned: a branch or rollback that
        # came in between keeps its files.
        metadata = table_metadata(latest.location, latest.document)
        reached = self._index.reached_among(plan.every(), metadata)
        for problem in self._index.problems(metadata):
            Strict().meet(problem)
        plan.spare(reached)
        failed = self.totals.failed
        stores = FencedStores(latest.stores.within(metadata.location), run.fence)
        delete = task_deleter(
            self._app,
            run,
            stores,
            self._target.metadata.location,
            self._request.rate,
            self._stored,
            quarantine,
            plan.every,
        )
        scope = final_scope(self._app, self._target, plan, self.purge_request)
        with (
            self.check(latest, scope, plan) as check,
            check.deletion(delete) as deletion,
        ):
            execute_purge(
                plan,
                _counting(deletion, self.gone),
                self.totals,
                progress=self._io.progress,
            )
        # Files that failed stay in the journal, and the next run tries them again.
        if self.totals.failed == failed:
            forget_journal(journal, log)

    def resume(self, run: DeleteRun, log: JournalLog) -> None:
        """Finish what dead runs began, as far as the table shows that their commit was sound."""
        base = self._handle.load()
        for journal in abandoned_journals(journaled(base), log):
            forget_journal(journal, log)
        for journal in find_journals(journaled(base), log.known).interrupted:
            found = examine(journal, base)
            match found.state:
                case InterruptedState.COMMITTED:
                    self._finish(run, found, log)
                case InterruptedState.NOT_COMMITTED:
                    forget_journal(journal, log)
                # Its files may belong to a ref that can be restored. With the journal gone no later
                # run deletes them; a sweep does, once no root references them.
                case InterruptedState.REF_LOST | InterruptedState.UNKNOWN:
                    forget_journal(journal, log)
                    raise ref_lost(self._target.name, found.lost_refs, found.base)

    def _finish(self, run: DeleteRun, found: InterruptedExpiry, log: JournalLog) -> None:
        with PurgePlan(self._target.metadata) as plan:
            for batch in unique_files(found.files()):
                plan.add(batch)
            self._io.notify(f"finishing an interrupted expiry: {plan.total_files:,} files")
            latest = self._handle.load()
            self._delete(run, latest, plan, found.journal, log, found.quarantine)


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


def forget_journal(journal: Journal | None, log: JournalLog) -> None:
    """Remove a journal: first its files, then the record, or it would look planted."""
    if journal is not None:
        journal.remove()
        log.forget(journal.address)


def ref_lost(table: str, refs: Iterable[str], base: str | None) -> IncompleteError:
    """A commit took a branch or tag along that the expiry did not know: files may be its own."""
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
