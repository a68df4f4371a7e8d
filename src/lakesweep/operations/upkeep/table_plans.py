"""Stored plans of one table, whatever the task: written down, opened, and taken up once.

A plan of a task that changes a table in place is the same document as that of a sweep. `details`
says what was asked and found. Files to delete are in one dataset; files that only leave the current
snapshot, and stay in storage until the snapshots before expire, are in the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.hashing import HashSet
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.tables.delete_runs import plans_of_table, quarantine_of_table
from lakesweep.operations.upkeep.task_runs import StoredTask
from lakesweep.runs.records import TABLE_PREFIX, new_name
from lakesweep.runs.restore_marks import check_restore_marks, read_restore_marks
from lakesweep.runs.run_figures import Recorded
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.guards import Guard, check_plan_age, refuse
from lakesweep.sweep.holdings import HOLD_UNTIL
from lakesweep.sweep.judge.totals import FileTotals
from lakesweep.sweep.plan.document import (
    PLAN_LIFETIME,
    PlanDocument,
    PlanKind,
    RootCounts,
    dataset_ref,
)
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan, publish_plan
from lakesweep.sweep.verdicts import Reason, Verdict


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What a plan of a table is to say. Files are batches of FILE_SCHEMA.

    `deletes` go from storage for `reason`, `leaving` from the current snapshot. `restores` are the
    marks of restores, as they were before the table was read. The plan is named after its `task`.
    """

    task: str = "expiry"
    reason: Reason = Reason.EXPIRED
    table: str
    restores: Mapping[str, str]
    location: str
    details: msgspec.Struct
    deletes: Iterable[pa.RecordBatch] = ()
    leaving: Iterable[pa.RecordBatch] = ()
    guards: tuple[Guard, ...] = ()
    overrides: frozenset[str] = frozenset()


def restores_of(app: App, ref: str) -> dict[str, str]:
    """The marks of restores where a table is.

    To be asked before the table is read: what is restored from then on makes its plan stale.
    """
    target = app.iceberg.find(ref)
    return read_restore_marks(
        app.stores, f"{TABLE_PREFIX}{target.name}", (target.metadata.location,)
    )


def store_table_plan(app: App, wanted: TablePlan) -> PlanDocument:
    """Store a plan of a table, and have the store vouch for it."""
    plan, now = new_name(wanted.task, app.clock), app.clock.now()
    address = f"{plans_of_table(app, wanted.location)}/{plan}"
    datasets, totals = {}, {}
    for verdict, reason, files in (
        (Verdict.DELETE, wanted.reason, wanted.deletes),
        (Verdict.KEEP, Reason.REFERENCED, wanted.leaving),
    ):
        counted = _Counted(wanted.table, verdict, reason)
        written = write_dataset(app.stores, f"{address}/{verdict}", VERDICTS, counted.rows(files))
        datasets[verdict.value] = dataset_ref(verdict, written)
        if counted.files or verdict is Verdict.DELETE:
            totals[verdict.value] = {reason.value: FileTotals(counted.files, counted.bytes)}
    document = PlanDocument(
        plan=plan,
        lake=f"{TABLE_PREFIX}{wanted.table}",
        kind=PlanKind.EXPIRY,
        created=now,
        expires=now + PLAN_LIFETIME,
        cut_off=now,
        grace_seconds=0,
        mode="exact",
        roots=RootCounts(1, 0),
        totals=totals,
        guards=wanted.guards,
        overridden=tuple(sorted(wanted.overrides)),
        locations=(wanted.location,),
        restores=dict(wanted.restores),
        datasets=datasets,
        details=msgspec.to_builtins(wanted.details),
    )
    publish_plan(app.stores, app.runs, address, document, 0)
    return document


@dataclass
class _Counted:
    """Files as VERDICTS, counted as they pass."""

    table: str
    verdict: Verdict
    reason: Reason
    files: int = 0
    bytes: int = 0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.files += batch.num_rows
            self.bytes += pc.sum(batch["size_bytes"]).as_py() or 0
            yield self._verdicts(batch)

    def _verdicts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        def same(text: str) -> pa.Array:
            return pa.repeat(pa.scalar(text, pa.string()), batch.num_rows)

        return pa.RecordBatch.from_arrays(
            [
                batch["path"],
                same(self.verdict),
                same(self.reason),
                batch["kind"],
                batch["size_bytes"],
                batch["modified"],
                batch["etag"],
                same(self.table),
                *hash_columns(file_hashes(batch["path"])),
            ],
            schema=VERDICTS,
        )


@dataclass(frozen=True, kw_only=True)
class ApplyTerms:
    """How a plan is carried out. `engine` is where an expiry reads lists and manifests."""

    quarantine: bool = False
    hold: timedelta | None = None
    rate: DeleteRate = UNLIMITED
    overrides: frozenset[str] = frozenset()
    engine: EngineName = EngineName.LOCAL


_PLAIN = ApplyTerms()


@dataclass(frozen=True)
class OpenedPlan:
    """A plan that may be carried out now, as its task takes it."""

    document: PlanDocument
    task: StoredTask
    overridden: frozenset[str]


def open_table_plan(app: App, plan: str, terms: ApplyTerms = _PLAIN) -> OpenedPlan:
    """A plan of a table, to be carried out. RefusedError if it is too old.

    Files that were restored since refuse it as well, but only under the lease of its task.
    """
    found = open_plan(app.stores, app.runs, plan)
    document = found.document
    overridden = frozenset({*terms.overrides, *document.overridden})
    age = [*check_plan_age(app.clock.now(), document.expires)]
    again = f"{document.commands} apply {document.plan}"
    refuse(age, overridden, document.plan, document.commands, again)
    spec: Recorded = {"quarantine": terms.quarantine, "overridden": sorted(overridden)}
    if terms.quarantine:
        places = quarantine_of_table(app, document.locations[0], document.plan)
        spec["places"] = msgspec.to_builtins(places)
        if terms.hold is not None:
            spec[HOLD_UNTIL] = micros(app.clock.now() + terms.hold)
    check = partial(_check_restores, app, document)
    task = StoredTask(found.record, planned_files(found), spec, check, terms.quarantine)
    return OpenedPlan(document, task, overridden)


def _check_restores(app: App, document: PlanDocument) -> None:
    """RefusedError if files were restored since the plan was made: the table may need them."""
    check_restore_marks(
        app.stores, document.lake, document.locations, document.restores, document.plan
    )


def planned_files(plan: StoredPlan) -> HashSet:
    """The hashes of all files that a plan names."""
    found = HashSet()
    for verdict in (Verdict.DELETE, Verdict.KEEP):
        for batch in read_dataset(plan.stores, plan.dataset(verdict.value), ["path"]):
            found.add(file_hashes(batch["path"]))
    return found
