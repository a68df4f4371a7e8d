"""Find and delete orphan files of Paimon tables with a sweep over their folders.

This deletes the same files as `paimon.orphans`, which works in one process. The folders are
the locations of the sweep and the tables its roots. A table that cannot be read keeps what
lies in the folders it is known to use, and no more; the others are cleaned.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakesweep.config import LakeSection, PaimonWarehouseRoot
from lakesweep.errors import IncompleteError, MissingError
from lakesweep.paimon.model.external_paths import external_roots
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
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan, stop_error
from lakesweep.sweep.apply.deletion import (
    DeleteRemoval,
    outcome_parts,
    read_outcomes,
)
from lakesweep.sweep.judge.paimon_names import kinds_of_paths, paimon_namings
from lakesweep.sweep.judge.rules import table_folders_of
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.clock import Clock
    from lakesweep.paimon.model.table import PaimonTable
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine

#: Guards of whole lakes, which say little of the orphans of some tables: whoever asks for these has
#: said how old they are, and what cannot be read stays.
_OVERRIDDEN = ("first-run", "zero-live", "live-fell", "share", "grace", "missing", "incomplete")
_STRANGE = (Reason.UNKNOWN_KIND, Reason.HIDDEN)


@dataclass
class SweptOrphans:
    """The orphans of some tables, in a stored plan; `failures` are tables that stay as they are."""

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
    """Cleans tables on an engine. `plans` is where plans are kept; `path` is what was asked for."""

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    plans: str
    path: str
    progress: Progress = SILENT

    def plan(
        self, tables: Sequence[PaimonTable], cut: datetime, overridden: Collection[str] = ()
    ) -> SweptOrphans:
        """Find what was last written before `cut` and is used by no table."""
        lake = self._lake(tables)
        with run_session(self.runs, lake.name, RunKind.PLAN, spec=self._spec) as session:
            planner = Planner(self.stores, self.engine, self.runs, self.clock, self.progress)
            order = PlanRequest(
                lake,
                max(session.started - cut, timedelta()),
                overridden=(*_OVERRIDDEN, *overridden),
                name=session.record.run,
            )
            document = planner.plan(order, session.started, session.lease)
        plan = open_plan(self.stores, self.runs, document.plan)
        failures = tuple(_failures(plan))
        failed = {folder_identity(each.table) for each in failures}
        read = (table for table in tables if folder_identity(table.address.path) not in failed)
        found = SweptOrphans(plan, lake, tuple(read), cut, failures)
        for batch in found.batches():
            count_kinds(found.files, batch)
        _tell_unknown(found)
        return found

    def remove(self, found: SweptOrphans, outcome: OrphanOutcome, pace: DeleteRate) -> None:
        """Delete what still nobody uses, and then the buckets and partitions that are empty."""
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
        with run_session(self.runs, lake, RunKind.APPLY, plan=plan, spec=self._spec) as session:
            applier = Applier(self.stores, self.engine, self.runs, self.clock, self.progress)
            applied = applier.apply(order, document, session)
        if applied.stopped:
            raise stop_error(applied)
        outcome.spared += applied.kept_by_remark
        for path in outcome_parts(self.stores, f"{found.plan.record.address}/outcomes"):
            for batch in read_outcomes(self.stores, path, OUTCOME_SCHEMA.names):
                outcome.add(batch)

    def _lake(self, tables: Sequence[PaimonTable]) -> Lake:
        """The tables and their external roots as a lake, of a name that the address stands for."""
        name = f"paimon-{hashlib.sha256(folder_identity(self.path).encode()).hexdigest()[:12]}"
        places = [place for table in tables for place in self._places(table)]
        section = LakeSection(
            locations=tuple(dict.fromkeys(places)),
            roots=(PaimonWarehouseRoot(type="paimon-warehouse", path=self.path),),
        )
        return Lake(name, section, f"{self.plans.rstrip('/')}/{name}", roots_stay=True)

    def _places(self, table: PaimonTable) -> Iterator[str]:
        yield table.address.path
        # A root that no file was written to yet need not be there.
        yield from (root for root in external_roots(table) if self._is_there(root))

    def _is_there(self, folder: str) -> bool:
        address = parse(folder)
        try:
            self.stores.open(address).list(address.folder, one_level=True)
        except MissingError:
            return False
        return True

    @property
    def _spec(self) -> dict[str, Any]:
        return {"engine": self.engine.name, "paimon": self.path}


def _failures(plan: StoredPlan) -> Iterator[FailedTable]:
    """The tables that could not be read; an error where it is not known which."""
    marks = plan.marks()
    for unknown in marks.unknown:
        raise IncompleteError(f"{unknown.origin}: {unknown.reason}; nothing was deleted")
    for root in marks.in_state(RootState.INCOMPLETE):
        error = IncompleteError(f"{root.name} cannot be read: {'; '.join(root.reasons)}")
        yield FailedTable(f"{root.name}/", error)


def _tell_unknown(found: SweptOrphans) -> None:
    kept = found.plan.document.totals.get(Verdict.KEEP.value, {})
    for reason in _STRANGE:
        if reason.value not in kept:
            continue
        rows = found.plan.rows(Verdict.KEEP, reason=reason.value)
        paths = (path for batch in rows for path in batch["path"].to_pylist())
        found.unknown.count += kept[reason.value].files
        found.unknown.paths += islice(paths, MOST_UNKNOWN - len(found.unknown.paths))
