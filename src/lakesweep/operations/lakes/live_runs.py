"""Runs while they run: how far they are, what they say, and how to stop them or let them go on.

All of it is in the store, so it does not matter on which machine a run works, or whether a shell or
a service started it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from lakesweep.app import App
from lakesweep.clock import moment
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.operations.lakes.runs import RunView
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import (
    JobRequest,
    OutputPage,
    find_job,
    submit_job,
)
from lakesweep.operations.store.store import MaintenanceView
from lakesweep.runs.fencing import request_stop
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.live_records import (
    LiveLinks,
    RunLiveRecord,
    StageRecord,
    live_record,
    output_record,
    request_cancel,
)
from lakesweep.runs.records import RunKind, RunRecord, RunStatus, is_repository, run_folder
from lakesweep.runs.schedules import JobKind
from lakesweep.runs.sessions import user_name
from lakesweep.store import Realm
from lakesweep.sweep.holdings import HOLD_UNTIL

#: How often a run is looked at that somebody follows.
FOLLOW_SECONDS = 1.0
#: A run that tells nothing for this long, by the clock of who follows it, has died.
_SILENCE = LEASE_TERM + CLOCK_MARGIN
_EXIT_CODES = {
    RunStatus.DONE: 0,
    RunStatus.REFUSED: 3,
    RunStatus.INCOMPLETE: 4,
    RunStatus.STOPPED: 4,
    RunStatus.CANCELLED: 4,
}
_FAILED = 1


class StageView(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run, with its rate and the seconds that it still needs, where known."""

    stage: str
    unit: str
    count: int
    total: int | None
    bytes: int
    seconds: float
    rate: float | None
    seconds_left: float | None
    running: bool

    @classmethod
    def of(cls, record: StageRecord) -> StageView:
        """The view of a recorded stage."""
        rate = record.count / record.seconds if record.count and record.seconds else None
        # A total that was estimated and is exceeded tells nothing any more.
        total = record.total if (record.total or 0) >= record.count else None
        left = None if not (record.is_open and rate and total) else (total - record.count) / rate
        return cls(
            stage=record.stage,
            unit=record.unit,
            count=record.count,
            total=total,
            bytes=record.size_bytes,
            seconds=record.seconds,
            rate=None if rate is None else round(rate, 3),
            seconds_left=None if left is None else round(left, 3),
            running=record.is_open,
        )


class RunProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is. `stage` is the step that it works on, `stages` are all so far."""

    run: str
    updated: datetime
    stage: StageView | None
    stages: tuple[StageView, ...]
    cancelled_by: str | None = None

    @classmethod
    def of(cls, record: RunLiveRecord) -> RunProgressView:
        """The view of what a run told."""
        stages = tuple(map(StageView.of, record.stages))
        return cls(
            run=record.run,
            updated=moment(record.updated_at),
            stage=next((each for each in reversed(stages) if each.running), None),
            stages=stages,
            cancelled_by=record.cancelled_by,
        )


class RunEventKind(StrEnum):
    """What a follower of a run is told."""

    PROGRESS = "progress"
    OUTPUT = "output"
    END = "end"


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something new of a run: how far it is, more lines, or its end with its exit code."""

    event: RunEventKind
    run: str
    status: str
    progress: RunProgressView | None = None
    output: OutputPage | None = None
    end: RunView | None = None
    exit_code: int | None = None


class CancelRequested(msgspec.Struct, frozen=True):
    """A run that was asked to stop, and by whom."""

    run: str
    cancelled_by: str
    stopping: bool = True


class _KnownRun(msgspec.Struct, frozen=True):
    """A run of a lake or of the store, and where it tells how far it is."""

    view: RunView
    realm: Realm
    links: LiveLinks | None
    record: RunRecord | None = None


class RunFollower:
    """Tells what is new of a run each time it is asked; for commands, streams and pages."""

    def __init__(self, app: App, run: str) -> None:
        self._app = app
        self._run = run
        self._line = 0
        self._seen: RunLiveRecord | None = None
        self._seen_at = app.clock.monotonic()
        self.is_over = False
        _find(app, run)  # NotFoundError rather than silence

    def look(self) -> list[RunEvent]:
        """What is new since the last call; the last event is the end of the run."""
        # The end first: what the run told before it is then read after it.
        known = _find(self._app, self._run)
        live = live_record(known.realm, known.links)
        events = [*self._progress(known, live), *self._output(known)]
        if known.view.finished is not None or self._is_silent(live):
            self.is_over = True
            events.append(self._end(known))
        return events

    def _progress(self, known: _KnownRun, live: RunLiveRecord | None) -> Iterator[RunEvent]:
        if live is None or live == self._seen:
            return
        self._seen, self._seen_at = live, self._app.clock.monotonic()
        yield RunEvent(
            event=RunEventKind.PROGRESS,
            run=self._run,
            status=known.view.status,
            progress=RunProgressView.of(live),
        )

    def _output(self, known: _KnownRun) -> Iterator[RunEvent]:
        page = _page(known, self._line, limit=10_000)
        if page.lines:
            self._line = page.next
            yield RunEvent(
                event=RunEventKind.OUTPUT, run=self._run, status=known.view.status, output=page
            )

    def _is_silent(self, live: RunLiveRecord | None) -> bool:
        """Whether it died: a run that lives gives a sign every few seconds."""
        silence = timedelta(seconds=self._app.clock.monotonic() - self._seen_at)
        return live is None or silence > _SILENCE

    def _end(self, known: _KnownRun) -> RunEvent:
        view = known.view
        if view.finished is None:
            view = msgspec.structs.replace(
                view, status=RunStatus.DEAD.value, message="it gives no sign of life"
            )
        return RunEvent(
            event=RunEventKind.END,
            run=self._run,
            status=view.status,
            end=view,
            exit_code=_EXIT_CODES.get(RunStatus(view.status), _FAILED),
        )


def follow_run(
    app: App, run: str, wait: Callable[[float], object] | None = None
) -> Iterator[RunEvent]:
    """What a run does, as it does it, until its end. A run that has ended says so at once."""
    follower = RunFollower(app, run)
    while True:
        yield from follower.look()
        if follower.is_over:
            return
        (wait or app.clock.sleep)(FOLLOW_SECONDS)


def run_progress(app: App, run: str) -> RunProgressView | None:
    """How far a run is, or was at its end; None if it does not tell."""
    known = _find(app, run)
    live = live_record(known.realm, known.links)
    return None if live is None else RunProgressView.of(live)


def run_output(app: App, run: str, after: int = 0, limit: int = 200) -> OutputPage:
    """A page of what a run said, from line number `after` on."""
    return _page(_find(app, run), after, limit)


def cancel_run(app: App, run: str, by: str | None = None) -> CancelRequested:
    """Ask a run to stop between two batches, on whichever machine it works.

    What it deleted stays deleted. The same plan can go on later: see `resume_run`.
    """
    known = _find(app, run)
    if known.view.finished is not None:
        raise UsageError(
            f"{run} is not running: it is {known.view.status}", hint=f"lakesweep runs {run}"
        )
    who = by or user_name()
    _cancel_job(app, known.view.job, who)  # first: no service may start it again
    asked = None
    if known.links is not None:
        asked = request_cancel(known.realm, known.links, who)
    # Where the run hears of it, it stops its tasks itself; one of an earlier version does not.
    if asked is None and not _stop_tasks(app, known.record):
        raise UsageError(
            f"{run} was started by a version that takes no request to stop",
            hint="end its process; its lease expires, and the next run finishes what it began",
        )
    return CancelRequested(run, (asked.cancelled_by if asked else None) or who)


def resume_run(app: App, run: str, by: str | None = None) -> JobView:
    """Queue what continues a run that did not come to its end, for a worker of a service."""
    known = _find(app, run)
    if known.view.status in (RunStatus.RUNNING.value, RunStatus.DONE.value):
        raise UsageError(
            f"{run} cannot be resumed: it is {known.view.status}", hint=f"lakesweep runs {run}"
        )
    request = None if known.record is None else _continuation(app, known.record)
    if request is None:
        raise UsageError(
            f"{run} is of kind {known.view.kind}, which is not resumed by a service",
            hint="run the same command again: it finishes what the last one began",
        )
    return submit_job(app, replace(request, by=by))


def run_again(app: App, run: str, by: str | None = None) -> JobView:
    """Queue the same work once more. An apply is not: each plan is applied once."""
    known = _find(app, run)
    request = can_run_again(app, known.view)
    if request is None and known.record is not None:
        request = _same_job(app, known.record)
    if request is None:
        raise UsageError(
            f"{run} is of kind {known.view.kind}, which is not run again by a service",
            hint="run the same command again",
        )
    return submit_job(app, replace(request, by=by))


def can_run_again(app: App, run: RunView) -> JobRequest | None:
    """The job that does the work of a run once more; None if there is none for its kind."""
    engine = (f"--engine={run.spec['engine']}",) if run.spec.get("engine") else ()
    if run.kind == RunView.MAINTAIN:
        return JobRequest(JobKind.MAINTAIN)
    if run.lake in app.config.lakes and run.kind in (RunKind.PLAN, RunKind.CHECK):
        return JobRequest(JobKind(run.kind), run.lake, engine)
    return None


def _continuation(app: App, run: RunRecord) -> JobRequest | None:
    """The job that continues a run; an apply goes on with the same plan and the same decisions."""
    engine = (f"--engine={run.spec['engine']}",) if run.spec.get("engine") else ()
    match run.kind:
        case RunKind.APPLY if run.plan is not None and "paimon" not in run.spec:
            kind = JobKind.LIFECYCLE_APPLY if is_repository(run.lake) else JobKind.APPLY
            return JobRequest(kind, run.plan, (*engine, *_decisions(run)))
        case RunKind.RESTORE if run.plan is not None:
            return JobRequest(JobKind.QUARANTINE_RESTORE, run.plan)
        case RunKind.PLAN if run.lake in app.config.lakes:
            return JobRequest(JobKind.PLAN, run.lake, engine)
        case RunKind.CHECK if run.lake in app.config.lakes:
            return JobRequest(JobKind.CHECK, run.lake, engine)
        case _:
            return _same_job(app, run)


def _decisions(run: RunRecord) -> Iterator[str]:
    """The options that a person, or the limits of a lake, decided for an apply."""
    yield from (f"--override={guard}" for guard in run.spec.get("overridden", ()))
    if run.spec.get("quarantine"):
        yield "--quarantine"
        if HOLD_UNTIL in run.spec:
            seconds = max(1, (run.spec[HOLD_UNTIL] - run.started_at) // 1_000_000)
            yield f"--hold={seconds}s"


def _same_job(app: App, run: RunRecord) -> JobRequest | None:
    """The scheduled job that a run was a part of, once more."""
    job = None if run.job is None else find_job(app, run.job)
    if job is None:
        return None
    options = (f"--{name}={value}" for name, value in job.options.items())
    return JobRequest(job.job, job.target, (*options, *job.words), files=job.files)


def _cancel_job(app: App, job: str | None, by: str) -> None:
    """Cancel the scheduled job that a run is a part of."""
    if job is not None and find_job(app, job) is not None:
        app.schedules.cancel(job, by)


def _stop_tasks(app: App, run: RunRecord | None) -> bool:
    """Stop the delete tasks of an apply directly."""
    if run is None or run.kind is not RunKind.APPLY or run.plan is None:
        return False
    try:
        plan = app.runs.plan(run.plan)
    except NotFoundError:
        return False
    request_stop(app.stores, run_folder(plan.address, run.run))
    return True


def _page(known: _KnownRun, after: int, limit: int) -> OutputPage:
    link = None if known.links is None else known.links.output
    return OutputPage.of(output_record(known.realm, link), after, limit)


def _find(app: App, run: str) -> _KnownRun:
    """A run by its name. NotFoundError if there is none."""
    if not app.is_new_store:
        for info in app.maintenance_runs.list():
            if info.run == run:
                view = RunView.of_maintenance(MaintenanceView.of(info))
                view = msgspec.structs.replace(view, job=info.job)
                return _KnownRun(view, app.maintenance_runs.system, info.live)
    record = app.known_runs.get(run)
    return _KnownRun(RunView.of(record), app.known_runs.realm, record.live, record)
