"""The scheduler of one service: claims due times, starts jobs, and takes over from the dead.

Any number of services may run over one store. None leads: due times and jobs are claimed by
compare-and-swap, and each job is a process with a lease of its own. If a service dies, its jobs go
on, and other services start what it had queued.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.errors import LakesweepError
from lakesweep.operations.schedules.cadence import cadence_in
from lakesweep.operations.schedules.schedules import targets_in
from lakesweep.operations.webhooks.delivery import deliver_events
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import LeaseRecord
from lakesweep.runs.schedule_book import ScheduleBook
from lakesweep.runs.sessions import holder_name

#: A job whose process died is started again this often; then it is dead.
MOST_ATTEMPTS = 2


#: A job whose lease was not renewed for this long has died.
_STILL_SECONDS = (LEASE_TERM + CLOCK_MARGIN).total_seconds()
#: A job that this service cannot start is tried again after so long, twice as long each time.
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 300.0


class StartedProcess(Protocol):
    """A process that supervises a job."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...


class LeaseWatch:
    """Which leases have not changed for how long, by the clock of this process.

    What the leases say themselves was written by other clocks, which may differ by minutes.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, float]] = {}

    def is_still(self, name: str, sign: object, now: float) -> bool:
        """Whether a sign of life has not changed for longer than a lease lasts."""
        before = self._seen.get(name)
        if before is None or before[0] != sign:
            self._seen[name] = sign, now
            return False
        return now - before[1] >= _STILL_SECONDS

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Forget all, or those that are not among these names."""
        kept = set(names or ())
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept}


class FailedStarts:
    """Jobs whose supervisor ended before it claimed them, and how long each of them rests.

    Nothing in the store tells of such a failure, and another service may well start the job: so
    each service remembers its own.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[float, float]] = {}  # how long, and until when

    def add(self, name: str, now: float) -> float:
        """One more failure; returns how long the job rests."""
        before, _ = self._pauses.get(name, (0.0, 0.0))
        pause = min(max(2 * before, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._pauses[name] = pause, now + pause
        return pause

    def is_resting(self, name: str, now: float) -> bool:
        """Whether a job is not to be started yet."""
        return name in self._pauses and now < self._pauses[name][1]

    def forget(self, names: Iterable[str]) -> None:
        """Forget jobs that are not among these names."""
        kept = set(names)
        self._pauses = {name: each for name, each in self._pauses.items() if name in kept}


@dataclass
class SchedulerService:
    """Claims and starts jobs, at most `workers` at once. `notify` gets what people should know.

    Without a `book` that of the app is used, which is opened as soon as the store answers. `start`
    starts the process that supervises a job.
    """

    app: App
    book: ScheduleBook | None
    workers: int
    config: Path | None
    notify: Callable[[str], object]
    name: str = field(default_factory=holder_name)
    start: Callable[[str], StartedProcess] | None = None
    _watch: LeaseWatch = field(default_factory=LeaseWatch)
    _failed: FailedStarts = field(default_factory=FailedStarts)
    _children: dict[str, StartedProcess] = field(default_factory=dict)
    _is_away: bool = False
    _complaint: str = ""

    def run(self, stop: threading.Event, every_seconds: float = 1.0) -> None:
        """Work until asked to stop. Jobs that run then go on by themselves."""
        if self.app.config.webhooks:
            # On a thread of its own: an address that does not answer must not delay a due time.
            threading.Thread(
                target=self._tell_webhooks, args=(stop, every_seconds), daemon=True, name="webhooks"
            ).start()
        while not stop.is_set():
            try:
                self.tick()
            except Exception as error:
                self._complain(f"the scheduler goes on after {type(error).__name__}: {error}")
            stop.wait(every_seconds)

    def _complain(self, text: str) -> None:
        """Say what is wrong, once for as long as it stays the same."""
        if text != self._complaint:
            self.notify(text)
        self._complaint = text

    def _tell_webhooks(self, stop: threading.Event, every_seconds: float) -> None:
        while not stop.wait(every_seconds):
            try:
                for notice in deliver_events(self.app):
                    self.notify(notice)
            except LakesweepError:
                continue  # the store may be away; what waits is in it
            except Exception as error:
                self._complain(f"webhooks go on after {type(error).__name__}: {error}")

    def tick(self) -> None:
        """Claim what is due, end what is dead, and start what waits. Survives a store away."""
        try:
            self._reap(self._book.open_jobs())
            for job in self._book.claim(self.name, targets_in(self.app), cadence_in(self.app)):
                self.notify(f"due: {job.name}{f', skipped: {job.message}' if job.message else ''}")
            self._bury_dead()
            self._start_queued()
        except LakesweepError as error:
            if not self._is_away:
                self.notify(f"the store does not answer, trying again: {error.message}")
            self._is_away = True
            self._watch.forget()  # leases could not be renewed either
        else:
            if self._is_away:
                self.notify("the store answers again")
            self._is_away = False

    @property
    def _book(self) -> ScheduleBook:
        return self.book or self.app.schedules

    def _reap(self, jobs: Sequence[JobRecord]) -> None:
        """Forget processes that ended. One whose job is still queued never began with it."""
        queued = {job.name for job in jobs if job.status is JobStatus.QUEUED}
        self._failed.forget(queued)
        for name, process in [*self._children.items()]:
            code = process.poll()
            if code is None:
                continue
            del self._children[name]
            if name in queued:
                self._rest(name, f"its supervisor ended with exit code {code}")

    def _rest(self, name: str, why: str) -> None:
        pause = self._failed.add(name, self.app.clock.monotonic())
        self.notify(f"{name} cannot be started, trying again in {pause:.0f} s: {why}")

    def _bury_dead(self) -> None:
        """Queue jobs again whose process died; end those that died too often."""
        jobs = self._book.open_jobs()
        self._watch.forget(job.name for job in jobs)
        for job in jobs:
            if job.status is JobStatus.RUNNING and self._is_dead(job):
                changed = self._book.change_job(job, self._after_death(job))
                if changed is not None:
                    self.notify(f"{job.name}: its process died; it is {changed.status}")

    def _is_dead(self, job: JobRecord) -> bool:
        lease = None
        if job.lease is not None:
            lease = self._book.realm.objects.fetch(job.lease, LeaseRecord)
        sign = (job.attempt, None if lease is None else lease.value)
        return self._watch.is_still(job.name, sign, self.app.clock.monotonic())

    def _after_death(self, dead: JobRecord) -> Callable[[JobRecord], JobRecord | None]:
        def change(job: JobRecord) -> JobRecord | None:
            if (job.status, job.attempt) != (JobStatus.RUNNING, dead.attempt):
                return None
            if job.attempt < MOST_ATTEMPTS and job.cancelled_by is None:
                return msgspec.structs.replace(job, status=JobStatus.QUEUED)
            return msgspec.structs.replace(
                job,
                status=JobStatus.DEAD,
                finished_at=micros(self.app.clock.now()),
                message="its process died",
            )

        return change

    def _start_queued(self) -> None:
        """Start jobs in the order of their due times, one at a time for each target."""
        jobs = self._book.open_jobs()
        busy = {_subject(job) for job in jobs if job.status is JobStatus.RUNNING}
        now = micros(self.app.clock.now())
        for job in jobs:
            if len(self._children) >= self.workers:
                return
            is_waiting = job.status is JobStatus.QUEUED and job.start_at <= now
            if not is_waiting or job.name in self._children or _subject(job) in busy:
                continue
            if self._failed.is_resting(job.name, self.app.clock.monotonic()):
                continue
            try:
                self._children[job.name] = (self.start or self._start)(job.name)
            except OSError as error:  # no memory, or too many open files or processes
                self._rest(job.name, error.strerror or str(error))
            else:
                busy.add(_subject(job))

    def _start(self, job: str) -> StartedProcess:
        config = [] if self.config is None else ["--config", str(self.config)]
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "lakesweep.scheduler", *config, "--", job],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # it outlives this service
        )


def _subject(job: JobRecord) -> tuple[str, str]:
    """What no two jobs work on at once: a lake, an address, or the store."""
    kind = "lake" if job.job in ("sweep", "check") else job.job.value
    return kind, job.target
