"""Carry out a plan.

Guards come first. Then all roots are checked again, and files that are now referenced or
doubtful are kept. The rest is written down, read back, and only then deleted, while the lease
is held.

A store that was restored from a backup may take an applied plan for a new one. Runs leave
their folders with the plan, so a run that the store does not know stops the apply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Protocol

import msgspec
import pyarrow as pa

from lakesweep.clock import Clock, micros
from lakesweep.errors import (
    LakesweepError,
    LeaseHeldError,
    RefusedError,
    StoppedError,
    override_options,
)
from lakesweep.guard_names import GuardName
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.fencing import FenceWriter, RunFence, request_stop
from lakesweep.runs.location_lock import lock_locations
from lakesweep.runs.records import LakeRecord, PlanRecord, RunStatus, plan_command, run_folder
from lakesweep.runs.restore_marks import check_inner_marks, check_restore_marks
from lakesweep.runs.run_log import check_free
from lakesweep.runs.sessions import Session
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.storage.deleting.outcome_totals import OutcomeReport
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.apply.deletion import (
    BATCH_ROWS,
    DeleteStep,
    QuarantineRemoval,
    RemainingStep,
    Removal,
    write_finished,
)
from lakesweep.sweep.apply.recheck import PlanRecheck, RecheckedPlan
from lakesweep.sweep.apply.report import (
    ApplyReport,
    ApplyResult,
    ReleaseReport,
    apply_report,
    sum_outcomes,
)
from lakesweep.sweep.apply.root_watch import WATCH_SECONDS, RootWatch, watch_roots
from lakesweep.sweep.apply.withholding import Withholding, add_counts
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from lakesweep.sweep.guards import MAX_CLOCK_SKEW, check_plan_age, check_policy, refuse
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, load_plan
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake

#: Rechecking takes no more than about a fifth of the time, however busy the lake is.
_REST = 4


@dataclass(frozen=True)
class ApplyRequest:
    """Which plan to apply, and how. A run can be stopped between two batches."""

    plan: PlanRecord
    lake: Lake
    removal: Removal
    outcome_schema: pa.Schema
    pace: DeleteRate
    overridden: tuple[str, ...] = ()
    batch_rows: int = BATCH_ROWS

    def command(self, commands: str) -> str:
        """The command that asks for it."""
        words = [commands, "apply", self.plan.plan]
        words += ["--quarantine"] if isinstance(self.removal, QuarantineRemoval) else []
        words += [override_options(self.overridden)] if self.overridden else []
        return " ".join(words)


class ReferenceRelease(Protocol):
    """Removes references to files before the files are deleted."""

    @property
    def report(self) -> ReleaseReport | None:
        """What it did. Files that are `waiting` are not deleted by this run."""
        ...

    def __call__(self, deletes: Dataset, folder: str, check: Callable[[], None]) -> Dataset | None:
        """The files (VERDICTS) to delete now; None if it changed roots: then recheck the plan.

        It may write to `folder`. `check` raises StoppedError or LeaseHeldError if the run must
        end; the implementation lets them pass.
        """
        ...


@dataclass(frozen=True)
class NoReferenceRelease:
    """Does not change roots."""

    @property
    def report(self) -> None:
        return None

    def __call__(self, deletes: Dataset, folder: str, check: Callable[[], None]) -> Dataset:
        del folder, check
        return deletes


def load_applicable_plan(
    stores: Stores, runs: RunLog, order: ApplyRequest, now: datetime
) -> PlanDocument:
    """The plan if no guard fails, else RefusedError. Changes nothing."""
    check_free(order.plan, order.plan.run)  # an applied plan is refused before its guards
    document = load_plan(stores, order.plan)
    runs.check_unrestored(order.plan)
    check_runs_known(stores, runs, order.plan)
    # A policy that was applied since may keep for longer what this plan expires.
    newer = check_policy(document.policy, runs.lake(document.lake).policy)
    # Guards about a table or a root withhold its files later, when the plan is rechecked.
    whole = (guard for guard in document.guards if not guard.subjects)
    guards = dict.fromkeys([*whole, *newer, *check_plan_age(now, document.expires)])
    overridden = {*order.overridden, *document.overridden}
    refuse(guards, overridden, document.plan, document.commands, order.command(document.commands))
    return document


@dataclass
class Applier:
    """Applies plans. Everything that touches files runs on the engine."""

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    progress: Progress = SILENT
    sources: RootSourceFactory = root_sources
    look_every: timedelta = WATCH_SECONDS
    release: ReferenceRelease = field(default_factory=NoReferenceRelease)

    def apply(self, order: ApplyRequest, document: PlanDocument, session: Session) -> ApplyResult:
        """Delete the files of a plan that nothing references. `session` holds the lake's lease."""
        # A lifecycle plan is applied under the lock of its repository.
        is_locked = document.kind is PlanKind.LIFECYCLE
        locations = order.lake.locations
        locked = () if is_locked else locations
        homes = document.inner_homes
        with lock_locations(self.stores, self.runs, locked, session, homes):
            # Under lease and lock, so that no restore of this or another store begins after this.
            self.runs.check_unrestored(order.plan)
            lake, known = document.lake, document.restores
            check_restore_marks(self.stores, lake, locations, known, document.plan)
            # These marks count by the store's clock, of which ours may be ahead.
            since = document.started - MAX_CLOCK_SKEW
            latest = self.clock.now() + MAX_CLOCK_SKEW
            check_inner_marks(self.stores, lake, homes, since, document.plan, latest=latest)
            return self._apply(order, document, session)

    def _apply(self, order: ApplyRequest, document: PlanDocument, session: Session) -> ApplyResult:
        overridden = {*order.overridden, *document.overridden}
        # The user may have taken long to confirm, so the plan may have expired meanwhile.
        age = [*check_plan_age(self.clock.now(), document.expires)]
        again = order.command(document.commands)
        refuse(age, overridden, document.plan, document.commands, again)
        # The holder of the lake's lease may resume what an earlier run left unfinished.
        plan = self.runs.claim(order.plan.plan, session.record.run, resumes=order.plan.run)
        session.lease.check()
        # The claim is in the store before the first file goes. A crash from here on leaves a plan
        # that names its run, so the next run resumes it instead of deleting by a plan nobody
        # finished.
        folder = run_folder(plan.address, session.record.run)
        control = RunFence(self.stores, folder, session.record.run, session.lease.token, self.clock)
        # Executors of the dead run may still have batches. They read its control object before each
        # of them, and end when it names another run.
        if order.plan.run is not None:
            control.take_over(run_folder(plan.address, order.plan.run), session.lease)
        reins = FenceWriter(control, session.lease)
        try:
            with session.lease.telling(reins.renew):
                applied = self._carry_out(order, document, session, reins)
        except BaseException:
            # Tasks may still run on executors: tell them to end before their next batch.
            with suppress(LakesweepError):
                request_stop(self.stores, folder)
            raise
        # After the deletes, never before: a run that dies in between is found unfinished, and what
        # it deleted is found absent.
        withholding = self._settler(order, document).withholding
        self._record(document, plan, session, applied, withholding)
        return applied

    def _carry_out(
        self, order: ApplyRequest, document: PlanDocument, session: Session, reins: FenceWriter
    ) -> ApplyResult:
        """Recheck the plan and delete its files; again whenever roots change meanwhile."""
        settler = self._settler(order, document)
        reports: list[OutcomeReport] = []
        folder, every = reins.control.folder, self.look_every.total_seconds()
        folders = (f"{folder}/again-{number}" for number in count(1))
        # Each round works in a folder of its own: what an earlier round wrote stays as evidence.
        while True:
            begin = time.monotonic()
            deleted = sum_outcomes(reports).deleted
            settled = settler.settle(folder, session.lease, deleted=deleted)
            # Before the first move: whatever is quarantined is in a list that the store knows.
            name = f"{folder}/delete".removeprefix(f"{reins.control.folder}/")
            session.record = self.runs.vouch(session.record, name, settled.deletes.sha256)
            if reports:
                every = max(every, _REST * (time.monotonic() - begin))
            # The recheck may have taken longer than the lease: tasks get a fence that is still
            # good.
            reins.renew(session.lease)
            control = reins.control  # of this round: the watch may start another one at any time
            try:
                deletes = self.release(settled.deletes, folder, control.check)
            except (StoppedError, LeaseHeldError) as error:
                return ApplyResult(0, self._report(reports), error.message)
            if deletes is None:
                folder = next(folders)
                continue
            # A commit that lands now could reference a file of this round. The watch pauses the
            # tasks, and the next round rechecks with that commit in view.
            with watch_roots(RootWatch(settler.sources_now(), settled.marks, every), reins.pause):
                answers, gone = self._delete(order, deletes, control, folder)
            reports += results_of(answers, "tally", OutcomeReport)
            stops = list(results_of(answers, "stopped", str))
            if stops or not any(results_of(answers, "paused", str)):
                report = self._report(reports)
                kept = document.amount(Verdict.DELETE.value).files - gone
                kept = max(0, kept - (report.waiting or 0) - sum(settled.withheld.values()))
                report = self._withheld(report, settler, settled, document)
                return ApplyResult(kept, report, stops[0] if stops else None)
            folder = next(folders)

    def _report(self, reports: Sequence[OutcomeReport]) -> ApplyReport:
        return apply_report(sum_outcomes(reports), self.release.report)

    def _withheld(
        self,
        report: ApplyReport,
        settler: PlanRecheck,
        settled: RecheckedPlan,
        document: PlanDocument,
    ) -> ApplyReport:
        """The report with what guards withheld, by guard."""
        found = add_counts(settler.withholding.kept(document), settled.withheld)
        return msgspec.structs.replace(report, withheld=found) if found else report

    def _settler(self, order: ApplyRequest, document: PlanDocument) -> PlanRecheck:
        return PlanRecheck(
            self.stores,
            self.engine,
            self.runs,
            self.clock,
            self.progress,
            self.sources,
            order.lake,
            document,
            order.plan.address,
            {*order.overridden, *document.overridden},
        )

    def _delete(
        self, order: ApplyRequest, deletes: Dataset, control: RunFence, folder: str
    ) -> tuple[pa.Table, int]:
        """The results of the delete tasks, and how many files were deleted or still are to be."""
        # Outcomes lie below the plan, not below the run: whichever run resumes finds all of them.
        outcomes = f"{order.plan.address}/outcomes"
        is_begun = order.plan.run is not None or folder != control.folder
        rest, done = self._without_done(deletes, outcomes, folder) if is_begun else (deletes, 0)
        # Tasks that wait for a slot would not use their share of the rate.
        most_calls = self.engine.slots if order.pace.is_limited else None
        with show_progress(
            self.stores, control.folder, self.progress, "deleted", total=rest.rows
        ) as shown:
            step = DeleteStep(
                self.stores,
                control,
                outcomes,
                order.removal,
                order.pace.split(most_calls or 1),
                order.outcome_schema,
                order.batch_rows,
                shown.folder,
            )
            with control.stopped_by_signal():
                answers = self.engine.gather(step, rest, TASK_RESULTS, most_calls=most_calls)
            reports = results_of(answers, "tally", OutcomeReport)
            shown.reach(sum(report.found for report in reports))
        return answers, done + rest.rows

    def _without_done(self, deletes: Dataset, outcomes: str, folder: str) -> tuple[Dataset, int]:
        """The files that no earlier run of this plan has finished, and how many it has."""
        settled = write_finished(self.stores, outcomes, f"{folder}/settled")
        if not settled.rows:
            return deletes, 0
        step = RemainingStep(self.stores, f"{folder}/rest")
        answers = self.engine.match(step, deletes, settled, TASK_RESULTS)
        rest = commit_dataset(
            self.stores, f"{folder}/rest", results_of(answers, "part", Part), LISTING
        )
        return rest, settled.rows

    def _record(
        self,
        document: PlanDocument,
        plan: PlanRecord,
        session: Session,
        applied: ApplyResult,
        withholding: Withholding,
    ) -> None:
        session.figures = applied.run_figures()
        if applied.stopped:
            session.status, session.message = RunStatus.STOPPED, applied.stopped
            return
        if applied.report.failed or applied.report.withheld:
            session.status = RunStatus.INCOMPLETE
        is_open = bool(applied.report.failed)
        if is_open and not applied.has_effect:
            return
        # An open plan stays with this run. Applying it again resumes it with the files that failed,
        # after all roots have been checked again.
        if not is_open:
            self.runs.close_plan(plan)

        def change(record: LakeRecord) -> LakeRecord:
            policy = document.policy or record.policy
            return msgspec.structs.replace(record, applied=session.record.run, policy=policy)

        # Deleting the files of these roots was confirmed, so the next plan need not ask again. It
        # must know that they were dropped: some of their files may be too new to go.
        kept = {
            subject
            for guard in document.guards
            if guard.name == GuardName.ROOTS_GONE
            for subject in withholding.standing(guard)
        }
        gone = {
            root.name: micros(root.seen)
            for root in document.gone_roots
            if root.deletes and root.name not in kept and not is_open
        }
        self.runs.learn(document.lake, change, dropped=gone)


def check_runs_known(stores: StoreOpener, runs: RunLog, plan: PlanRecord) -> None:
    """RefusedError if a run of a plan is not in the store."""
    begin = run_folder("", "").removeprefix("/")
    folders = list_level(stores, parse(f"{plan.address.rstrip('/')}/")).folders
    found = {name.removeprefix(begin) for name in folders if name.startswith(begin)}
    if not found:
        return
    strays = sorted(found - {run.run for run in runs.list(plan.lake)})
    if strays:
        raise RefusedError(
            GuardName.STALE_PLAN,
            f"plan {plan.plan} was applied by {strays[0]}, which the store does not know: the store"
            " may have been restored from a backup",
            hint=f"{plan_command(plan.lake)} makes a new plan; what that run quarantined is"
            " still in the quarantine of the lake",
        )
