"""Find and delete orphan files of Paimon tables with a sweep over their folders.

The folders are the locations of the sweep and the tables its roots. A table that cannot be
read keeps all files in the folders it is known to use, and no more; the others are cleaned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.errors import IncompleteError, LakesweepError, LeaseHeldError, MissingError
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.warehouse import FailedTable
from lakesweep.paimon.orphans.folders import bucket_folders, remove_empty
from lakesweep.paimon.orphans.orphan_files import (
    MOST_UNKNOWN,
    OrphanOutcome,
    UnrecognizedFiles,
    count_kinds,
)
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.records import RunKind
from lakesweep.runs.sessions import run_session
from lakesweep.storage.address import folder_identity, identities, parse
from lakesweep.storage.file_batches import FILE_SCHEMA, OUTCOME_SCHEMA
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval, outcome_parts, read_outcomes
from lakesweep.sweep.judge.paimon_names import kinds_of_paths, paimon_namings
from lakesweep.sweep.judge.rules import table_folders_of
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.local_orphans import orphan_lake, orphan_spec
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.roots.root import RootKind
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.clock import Clock
    from lakesweep.config import Root
    from lakesweep.paimon.model.table import PaimonTable
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine

#: Guards of whole lakes, which do not apply to the orphans of some tables: the caller has said how
#: old orphans must be, and the files of a table that cannot be read are kept.
_OVERRIDDEN = (
    *("first-run", "zero-live", "live-fell", "share", "grace"),
    *("missing", "incomplete", "unlisted-table"),
)
_UNRECOGNIZED = (Reason.UNKNOWN_KIND, Reason.HIDDEN)


@dataclass
class SweptOrphans:
    """The orphans of some tables, in a stored plan; tables in `failures` are not cleaned."""

    plan: StoredPlan
    lake: Lake
    tables: tuple[PaimonTable, ...]
    cut: datetime
    failures: tuple[FailedTable, ...] = ()
    files: Counter[PaimonKind] = field(default_factory=Counter)
    unknown: UnrecognizedFiles = field(default_factory=UnrecognizedFiles)

    @property
    def total_files(self) -> int:
        return self.plan.document.amount(Verdict.DELETE.value).files

    @property
    def total_bytes(self) -> int:
        return self.plan.document.amount(Verdict.DELETE.value).bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All orphans, as FILE_SCHEMA."""
        marks = self.plan.marks()
        tables = table_folders_of(marks)
        namings = paimon_namings(
            tables, {root.name: root.facts for root in marks.roots if root.facts}
        )
        for rows in self.plan.rows(Verdict.DELETE):
            names = resolve_aliases(identities(rows["path"]))
            kinds = kinds_of_paths(names, tables.find(names), tables, namings)
            columns = [kinds if name == "kind" else rows[name] for name in FILE_SCHEMA.names]
            yield pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)


@dataclass(frozen=True)
class OrphanSweeper:
    """Cleans tables on an engine. `path` is the address to clean; plans are kept in `plans`.

    Lakesweep's own files are `kept`, and so is what `others` reference.
    """

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    plans: str
    path: str
    progress: Progress = SILENT
    kept: tuple[str, ...] = ()
    others: tuple[Root, ...] = ()
    sources: RootSourceFactory = root_sources

    def plan(
        self, tables: Sequence[PaimonTable], cut: datetime, overridden: Collection[str] = ()
    ) -> SweptOrphans:
        """Find files that were last written before `cut` and that no table uses."""
        places = [place for table in tables for place in self._places(table)]
        lake = orphan_lake(self.path, self.plans, places, kept=self.kept, others=self.others)
        spec = orphan_spec(self.engine.name, self.path)
        with run_session(
            self.runs, lake.name, RunKind.PLAN, spec=spec, plans=lake.plans
        ) as session:
            planner = Planner(
                self.stores,
                self.engine,
                self.runs,
                self.clock,
                self.progress,
                sources=self.sources,
            )
            order = PlanRequest(
                lake,
                max(session.started - cut, timedelta()),
                overridden=(*_OVERRIDDEN, *overridden),
                name=session.record.run,
            )
            document = planner.plan(order, session.started, session.lease)
        plan = open_plan(self.stores, self.runs, document.plan)
        failures = tuple(_failures(plan, tables))
        failed = {folder_identity(each.table) for each in failures}
        read = (table for table in tables if folder_identity(table.address.path) not in failed)
        found = SweptOrphans(plan, lake, tuple(read), cut, failures)
        for batch in found.batches():
            count_kinds(found.files, batch)
        _count_unrecognized(found)
        return found

    def remove(self, found: SweptOrphans, outcome: OrphanOutcome, pace: DeleteRate) -> None:
        """Delete the orphans that are still unused, then buckets and partitions that are empty."""
        if found.total_files:
            self._apply(found, outcome, pace)
        folders = {folder for batch in found.batches() for folder in bucket_folders(batch)}
        outcome.folders += remove_empty(found.tables, folders, found.cut)

    def _apply(self, found: SweptOrphans, outcome: OrphanOutcome, pace: DeleteRate) -> None:
        order = ApplyRequest(
            found.plan.record,
            found.lake,
            DeleteRemoval(),
            OUTCOME_SCHEMA,
            pace,
            found.plan.document.overridden,
        )
        document = load_applicable_plan(self.stores, self.runs, order, self.clock.now())
        plan, lake = document.plan, found.lake.name
        spec = orphan_spec(self.engine.name, self.path)
        with run_session(self.runs, lake, RunKind.APPLY, plan=plan, spec=spec) as session:
            applier = Applier(
                self.stores, self.engine, self.runs, self.clock, self.progress, self.sources
            )
            applied = applier.apply(order, document, session)
        self._add_outcomes(found, outcome)
        if applied.stopped:
            raise applied.stop_error()
        outcome.spared += applied.kept_by_remark

    def _add_outcomes(self, found: SweptOrphans, outcome: OrphanOutcome) -> None:
        for path in outcome_parts(self.stores, f"{found.plan.record.address}/outcomes"):
            for batch in read_outcomes(self.stores, path, OUTCOME_SCHEMA.names):
                outcome.add(batch)

    def _places(self, table: PaimonTable) -> Iterator[str]:
        yield table.address.path
        # An external root without any file yet may be missing.
        yield from (root for root in table.external_roots if self._is_there(root))

    def _is_there(self, folder: str) -> bool:
        address = parse(folder)
        try:
            self.stores.open(address).list(address.folder, one_level=True)
        except MissingError:
            return False
        return True


@dataclass
class SweepOrphanCleaner:
    """Cleans all tables at once, for one request."""

    sweeper: OrphanSweeper
    overridden: Collection[str]
    rate: DeleteRate
    _found: SweptOrphans | None = None

    def find(
        self, groups: Sequence[TableGroup], cut: datetime
    ) -> Iterator[SweptOrphans | FailedTable]:
        tables = [table for group in groups for table in group.tables]
        found = self.sweeper.plan(tables, cut, self.overridden)
        yield from found.failures
        if found.tables:
            self._found = found
            yield found

    def remove(self, outcome: OrphanOutcome) -> Sequence[FailedTable]:
        found = self._found
        if found is None:
            return []
        try:
            self.sweeper.remove(found, outcome, self.rate)
        except LeaseHeldError:
            raise
        except LakesweepError as error:
            return [FailedTable(table.address.path, error) for table in found.tables]
        return []


def _failures(plan: StoredPlan, tables: Sequence[PaimonTable]) -> Iterator[FailedTable]:
    """The tables that could not be read; an error if it is unknown which.

    Another root that cannot be read may reference any file outside of the tables' own folders.
    """
    marks = plan.marks()
    for unknown in marks.unknown:
        raise IncompleteError(f"{unknown.origin}: {unknown.reason}; nothing was deleted")
    known = {folder_identity(table.address.path) for table in tables}
    for root in marks.in_state(RootState.INCOMPLETE):
        error = IncompleteError(f"{root.name} cannot be read: {'; '.join(root.reasons)}")
        if root.kind is not RootKind.PAIMON_TABLE or folder_identity(root.name) not in known:
            raise error
        yield FailedTable(f"{root.name}/", error)


def _count_unrecognized(found: SweptOrphans) -> None:
    kept = found.plan.document.totals.get(Verdict.KEEP.value, {})
    for reason in _UNRECOGNIZED:
        if reason.value not in kept:
            continue
        rows = found.plan.rows(Verdict.KEEP, reason=reason.value)
        paths = (path for batch in rows for path in batch["path"].to_pylist())
        found.unknown.count += kept[reason.value].files
        found.unknown.paths += islice(paths, MOST_UNKNOWN - len(found.unknown.paths))
