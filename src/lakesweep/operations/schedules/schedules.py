"""Add, list, show, pause, run and remove schedules. Each change is a commit in the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.errors import ReferenceMissingError, UsageError
from lakesweep.operations.schedules.jobs import check_schedule, targets_of
from lakesweep.runs.due_times import upcoming
from lakesweep.runs.job_records import SCHEDULES, JobRecord
from lakesweep.runs.schedules import ON_DEMAND, JobKind, Schedule
from lakesweep.runs.sessions import user_name
from lakesweep.store import key
from lakesweep.units import format_duration

_SHOWN_DUE = 5
_SHOWN_JOBS = 10
_SHOWN_CHANGES = 20
#: In so many of the newest commits the changes of a schedule are looked for.
_LOOKED_AT = 500


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One due time of a schedule for one target, and what became of it."""

    job: str
    schedule: str
    kind: str
    target: str
    due: datetime
    status: str
    claimed_by: str
    claimed: datetime
    started: datetime | None
    finished: datetime | None
    attempt: int
    earlier: int
    exit_code: int | None
    message: str
    run: str | None = None
    output: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: JobRecord) -> JobView:
        """The view of a stored job."""
        return cls(
            job=job.name,
            schedule=job.schedule,
            kind=job.job.value,
            target=job.target,
            due=moment(job.due),
            status=job.status.value,
            claimed_by=job.claimed_by,
            claimed=moment(job.claimed_at),
            started=None if job.started_at is None else moment(job.started_at),
            finished=None if job.finished_at is None else moment(job.finished_at),
            attempt=job.attempt,
            earlier=job.earlier,
            exit_code=job.exit_code,
            message=job.message,
            run=job.run,
            output=job.output,
        )


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, when it is due next, and its newest jobs."""

    name: str
    job: str
    lake: str | None
    target: str | None
    when: str
    jitter: str
    timeout: str | None
    catch_up: str
    origin: str
    changed_by: str
    changed: datetime | None
    paused_by: str | None
    interval: str | None
    why: str
    next_due: tuple[datetime, ...]
    jobs: tuple[JobView, ...]


class ScheduleList(msgspec.Struct, frozen=True):
    """All schedules by name."""

    schedules: tuple[ScheduleView, ...]


class ScheduleChange(msgspec.Struct, frozen=True):
    """One change of a schedule: when, and what the commit says of it."""

    at: datetime
    action: str
    message: str


def schedule_history(app: App, name: str) -> tuple[ScheduleChange, ...]:
    """The newest changes of a schedule, newest first, as far as the log reaches back."""
    wanted = key("schedule", name)
    try:
        commits = list(islice(app.known_schedules.realm.log(SCHEDULES), _LOOKED_AT))
    except ReferenceMissingError:
        return ()
    return tuple(
        ScheduleChange(moment(each.value.committed_at), change.action, each.value.message)
        for each in commits
        for change in each.value.changes
        if change.key == wanted
    )[:_SHOWN_CHANGES]


def add_schedule(app: App, schedule: Schedule) -> ScheduleView:
    """Keep a schedule in the store, or replace the one of that name."""
    if not schedule.name or "/" in schedule.name or "@" in schedule.name:
        raise UsageError(
            f"{schedule.name!r} is not a name for a schedule", hint="use a word such as nightly"
        )
    check_schedule(schedule, list(app.config.lakes))
    now = micros(app.clock.now())
    named = msgspec.structs.replace(
        schedule, changed_by=schedule.changed_by or user_name(), changed_at=now
    )
    app.schedules.put(named)
    return show_schedule(app, schedule.name)


def list_schedules(app: App) -> ScheduleList:
    """All schedules, of the configuration file and of the store."""
    jobs = [*app.known_schedules.open_jobs(), *islice(app.known_schedules.ended_jobs(), 1_000)]
    found = sorted(app.known_schedules.schedules().values(), key=lambda each: each.name)
    return ScheduleList(tuple(_view(app, each, jobs, most_jobs=1) for each in found))


def show_schedule(app: App, name: str) -> ScheduleView:
    """One schedule with its next due times and newest jobs."""
    schedule = app.known_schedules.schedule(name)
    jobs = [*app.known_schedules.open_jobs(), *islice(app.known_schedules.ended_jobs(), 10_000)]
    return _view(app, schedule, jobs, most_jobs=_SHOWN_JOBS)


def pause_schedule(app: App, name: str, by: str | None = None) -> ScheduleView:
    """Let no due time run until the schedule is resumed."""
    app.schedules.pause(name, by or user_name())
    return show_schedule(app, name)


def resume_schedule(app: App, name: str, by: str | None = None) -> ScheduleView:
    """Let a paused schedule run again; due times that passed meanwhile are over."""
    app.schedules.resume(name, by or user_name())
    return show_schedule(app, name)


def remove_schedule(app: App, name: str, by: str | None = None) -> None:
    """Remove a schedule from the store."""
    app.schedules.remove(name, by or user_name())


def run_schedule(app: App, name: str, by: str | None = None) -> tuple[JobView, ...]:
    """Queue the jobs of a schedule for the next free worker of a service."""
    jobs = app.schedules.run_now(name, by or user_name(), targets_in(app))
    return tuple(JobView.of(job) for job in jobs)


def targets_in(app: App) -> Callable[[Schedule], list[str]]:
    """What schedules work on, by the lakes of the configuration."""
    return lambda schedule: targets_of(schedule, list(app.config.lakes))


def parse_job(name: str) -> JobKind:
    """A kind of job by its name."""
    known = [kind.value for kind in JobKind if kind not in ON_DEMAND]
    if name not in known:
        raise UsageError(f"there is no job {name!r}", hint=f"the jobs are {', '.join(known)}")
    return JobKind(name)


def _view(app: App, schedule: Schedule, jobs: list[JobRecord], *, most_jobs: int) -> ScheduleView:
    state = app.known_schedules.state(schedule.name)
    own = sorted((job for job in jobs if job.schedule == schedule.name), key=lambda job: -job.due)
    now = app.clock.now()
    settled, interval = (now, None) if state is None else (moment(state.claimed), state.interval)
    due = upcoming(schedule.times_from(settled, interval), now, _SHOWN_DUE)
    return ScheduleView(
        name=schedule.name,
        job=schedule.job.value,
        lake=schedule.lake,
        target=schedule.target,
        when=schedule.described,
        jitter=format_duration(timedelta(seconds=schedule.jitter)),
        timeout=None
        if schedule.timeout is None
        else format_duration(timedelta(seconds=schedule.timeout)),
        catch_up=schedule.catch_up.value,
        origin=schedule.origin.value,
        changed_by=schedule.changed_by,
        changed=moment(schedule.changed_at) if schedule.changed_at else None,
        paused_by=None if state is None else state.paused_by,
        interval=None
        if state is None or state.interval is None
        else format_duration(timedelta(seconds=state.interval)),
        why="" if state is None else state.why,
        next_due=() if state is not None and state.paused_by else tuple(due),
        jobs=tuple(JobView.of(job) for job in own[:most_jobs]),
    )
