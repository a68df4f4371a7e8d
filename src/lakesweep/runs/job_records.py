"""What the store keeps of schedules, their due times and the jobs that came of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from lakesweep.runs import live_records
from lakesweep.runs.schedules import JobKind
from lakesweep.store import NO_INDEX, Commit, IndexRoot, Link

#: The reference behind which all of it lies.
SCHEDULES = "schedules"


class JobStatus(StrEnum):
    """How far a job is. One that died while it ran is started again once, then it is `dead`.

    A due time is `skipped` if the job before it still waits or runs, or if it was missed.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    WAITING = "waiting"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"

    @property
    def is_open(self) -> bool:
        """Whether it still has to start or to end."""
        return self in (JobStatus.QUEUED, JobStatus.RUNNING)


class JobFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a command ended with, as it told programs."""

    type: str
    message: str
    hint: str | None = None
    exit_code: int = 1


class JobResultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the command of a job printed for programs: JSON lines. A result too long is cut."""

    text: str = ""
    is_cut: bool = False
    failure: JobFailure | None = None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One due time of a schedule, for one target. Moments are microseconds since 1970.

    `lease` is renewed by the process that runs the job; one that is skipped has none. `attempt`
    counts its starts, and is the fencing token of the record: only the process of the last start
    may change it. `run` is the run
    that it made last. It starts at `start_at`, which is later than `due` by the schedule's jitter.
    `earlier` counts due times that passed while no service ran, and that this job stands for.
    `words` are added to its command. `log` is where its output is kept; `output` are the last lines
    of a job that has ended, and `result` is where its JobResultRecord is. `files` are texts that
    its command reads, by their names. A job that somebody asked for has no `schedule`.
    """

    name: str
    schedule: str
    job: JobKind
    target: str
    due: int
    start_at: int
    earlier: int = 0
    lease: Link | None = None
    claimed_by: str
    claimed_at: int
    attempt: int = 0
    timeout: int | None = None
    options: dict[str, str] = {}
    words: tuple[str, ...] = ()
    log: Link | None = None
    status: JobStatus = JobStatus.QUEUED
    started_at: int | None = None
    finished_at: int | None = None
    run: str | None = None
    message: str = ""
    exit_code: int | None = None
    cancelled_by: str | None = None
    output: tuple[str, ...] = ()
    result: Link | None = None
    files: dict[str, str] = {}


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a schedule is: due times up to `claimed` are settled.

    `interval` is how often it is due, in seconds, if it decides that itself, and `why` says why.
    """

    claimed: int
    paused_by: str | None = None
    interval: int | None = None
    why: str = ""


class SchedulesCommit(Commit, frozen=True, kw_only=True):
    """The head of `schedules`.

    `schedules` leads from names to Schedule, `states` to ScheduleState, `open` and `ended` from due
    time and name to JobRecord.
    """

    schedules: IndexRoot = NO_INDEX
    states: IndexRoot = NO_INDEX
    open: IndexRoot = NO_INDEX
    ended: IndexRoot = NO_INDEX


#: The types that a store must know to hold all this.
TYPES: Mapping[str, type[msgspec.Struct]] = {
    "schedules": SchedulesCommit,
    "scheduled-job": JobRecord,
    "job-result": JobResultRecord,
    **live_records.TYPES,
}
