"""Carrying out a plan.

Guards come first. Then the roots are looked at again: whatever came, moved or could not be read is
marked anew, and what is referenced or doubtful by now stays. What is left is written down, read
back, and only then deleted, while the lease is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock
from lakesweep.errors import IncompleteError, StoppedError
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets import Dataset, Part, commit_dataset, load_dataset, read_dataset
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.control import Control, run_folder
from lakesweep.sweep.deleting import (
    BATCH_ROWS,
    DeleteStep,
    Pace,
    Removal,
    RestStep,
    write_settled,
)
from lakesweep.sweep.guards import look_at_age, refuse
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import remark
from lakesweep.sweep.marks import Marks, load_marks
from lakesweep.sweep.plans import PlanDocument, load_plan, open_dataset
from lakesweep.sweep.records import LakeRecord, PlanRecord, RunStatus
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.sweep.ruling import make_ruling
from lakesweep.sweep.sessions import Session
from lakesweep.sweep.steps import JudgeStep
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.runs import Runs

#: Of all failures so many are told by name; the outcomes have them all.
_MOST_FAILURES = 1_000


@dataclass(frozen=True)
class ApplyOrder:
    """What is asked of an apply. Between two batches it may be stopped."""

    plan: PlanRecord
    lake: Lake
    removal: Removal
    outcome_schema: pa.Schema
    pace: Pace
    overridden: tuple[str, ...] = ()
    batch_rows: int = BATCH_ROWS


@dataclass(frozen=True)
class Applied:
    """What an apply did. `kept_by_remark` are files of the plan that stay after all."""

    kept_by_remark: int
    figures: dict[str, Any]
    stopped: str | None = None


@dataclass
class Applier:
    """Carries out plans. All parts that touch files run on the engine."""

    stores: Stores
    engine: SweepEngine
    runs: Runs
    clock: Clock
    progress: Progress = SILENT
    sources: Sources = root_sources

    def look(self, order: ApplyOrder) -> PlanDocument:
        """The plan, if no guard says no; RefusedError otherwise. Nothing is changed."""
        document = load_plan(self.stores, order.plan)
        guards = [*document.guards, *look_at_age(self.clock.now(), document.expires)]
        refuse(guards, {*order.overridden, *document.overridden}, document.plan)
        return document

    def apply(self, order: ApplyOrder, document: PlanDocument, session: Session) -> Applied:
        """Delete what the plan says and nothing needs. `session` holds the lease of the lake."""
        # Whoever holds the lease of the lake may take over what an earlier run left.
        plan = self.runs.claim(order.plan.plan, session.record.run, resumes=order.plan.run)
        folder = run_folder(plan.address, session.record.run)
        session.lease.check()
        deletes = self._settle(order, document, session, folder)
        control = Control(self.stores, folder, session.record.run, session.lease.token, self.clock)
        control.renew(session.lease)
        session.lease.listeners.append(control.renew)
        try:
            applied = self._delete(order, document, deletes, control, plan.address)
        finally:
            session.lease.listeners.clear()
        self._record(order, plan, session, applied)
        return applied

    def _settle(
        self, order: ApplyOrder, document: PlanDocument, session: Session, folder: str
    ) -> Dataset:
        """What is to go, after another look at the roots; written, and read back."""
        address = order.plan.address
        planned = open_dataset(self.stores, address, document.datasets, Verdict.DELETE.value)
        listing = open_dataset(self.stores, address, document.datasets, "listing")
        before = load_marks(self.stores, f"{address}/marks")
        with self.progress.task("marked again", unit="roots"):
            marks = self._remark(order.lake, before, listing, f"{folder}/marks")
        session.lease.check()
        ruling = make_ruling(
            order.lake,
            marks,
            self.runs.known_folders(self.runs.lake(order.lake.name)),
            {*order.overridden, *document.overridden},
            now=self.clock.now(),
            cutoff=document.cut_off,
        )
        step = JudgeStep(self.stores, f"{folder}/keep", f"{folder}/delete", ruling.rules)
        answers = self.engine.match(step, planned, marks.content, ANSWERS)
        parts = answers_of(answers, Verdict.DELETE.value, Part)
        commit_dataset(self.stores, f"{folder}/delete", parts, VERDICTS)
        return load_dataset(self.stores, f"{folder}/delete")

    def _remark(self, lake: Lake, before: Marks, listing: Dataset, address: str) -> Marks:
        def files() -> Iterator[pa.RecordBatch]:
            return read_dataset(self.stores, listing)

        sources = self.sources(self.stores, lake.section, files)
        spec = MarkSpec(self.engine, self.stores, address)
        marks = remark(spec, sources, before)
        _refuse_more_doubt(before, marks)
        return marks

    def _delete(
        self,
        order: ApplyOrder,
        document: PlanDocument,
        deletes: Dataset,
        control: Control,
        address: str,
    ) -> Applied:
        outcomes = f"{address}/outcomes"
        rest = self._without_done(order, deletes, outcomes, control.folder)
        step = DeleteStep(
            self.stores,
            control,
            outcomes,
            order.removal,
            order.pace.share(self.engine.parts),
            order.outcome_schema,
            order.batch_rows,
        )
        with self.progress.task("deleted", total=rest.rows):
            answers = self.engine.gather(step, rest, ANSWERS)
        figures = _sum(answers_of(answers, "tally", dict[str, Any]))
        stops = list(answers_of(answers, "stopped", str))
        kept = document.amount(Verdict.DELETE.value).files - deletes.rows
        return Applied(kept, figures, stops[0] if stops else None)

    def _without_done(
        self, order: ApplyOrder, deletes: Dataset, outcomes: str, folder: str
    ) -> Dataset:
        """The files that no earlier attempt at this plan has dealt with."""
        if order.plan.run is None:
            return deletes
        settled = write_settled(self.stores, outcomes, f"{folder}/settled")
        if not settled.rows:
            return deletes
        step = RestStep(self.stores, f"{folder}/rest")
        answers = self.engine.match(step, deletes, settled, ANSWERS)
        return commit_dataset(
            self.stores, f"{folder}/rest", answers_of(answers, "part", Part), LISTING
        )

    def _record(
        self, order: ApplyOrder, plan: PlanRecord, session: Session, applied: Applied
    ) -> None:
        session.figures = {**applied.figures, "kept_by_remark": applied.kept_by_remark}
        session.figures.pop("failures", None)
        if applied.stopped:
            session.status, session.message = RunStatus.STOPPED, applied.stopped
            return
        if applied.figures["failed"]:
            session.status = RunStatus.INCOMPLETE
        self.runs.close_plan(plan)

        def change(record: LakeRecord) -> LakeRecord:
            return msgspec.structs.replace(record, applied=session.record.run)

        self.runs.learn(order.lake.name, change)


def stop_error(applied: Applied) -> StoppedError:
    """The error that a run which was stopped ends with."""
    return StoppedError(f"{applied.stopped}; {applied.figures['deleted']:,} files were deleted")


def _refuse_more_doubt(before: Marks, now: Marks) -> None:
    """A source that can no longer be read might keep anything by now."""
    known = {unknown.origin for unknown in before.unknown}
    lost = [unknown for unknown in now.unknown if unknown.origin not in known]
    if lost:
        raise IncompleteError(
            f"{lost[0].origin} could be read when the plan was made, and cannot now: "
            f"{lost[0].reason}; nothing was deleted",
            hint="mend it, then apply the same plan again",
        )


def _sum(tallies: Iterator[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = dict.fromkeys(
        ("found", "deleted", "absent", "failed", "bytes_deleted", "failures_omitted"), 0
    )
    failures: list[Any] = []
    for tally in tallies:
        failures += tally.pop("failures", [])
        for name, count in tally.items():
            total[name] = total.get(name, 0) + count
    total["failures"] = failures[:_MOST_FAILURES]
    return total
