"""The book of schedules and jobs in the store. Each change is one commit.

A due time is claimed by the commit that adds its jobs and moves the schedule's state forward. Two
services that try at the same moment write against the same head; one of them loses, looks again
and finds nothing due. So each due time is claimed once, without a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from secrets import token_hex

import msgspec

from lakesweep.clock import Clock, micros, moment
from lakesweep.errors import NotFoundError, RefusedError
from lakesweep.runs.due_times import PassedDue, passed_due, start_delay
from lakesweep.runs.job_records import (
    SCHEDULES,
    JobRecord,
    JobStatus,
    SchedulesCommit,
    ScheduleState,
)
from lakesweep.runs.live_records import OutputRecord
from lakesweep.runs.log_reference import LogReference
from lakesweep.runs.records import LeaseRecord
from lakesweep.runs.schedules import CatchUp, JobKind, Schedule, ScheduleOrigin
from lakesweep.store import LINKS, Attempt, Change, Link, Packed, Realm, key, seal
from lakesweep.units import format_moment

_SCHEDULES = Packed(Schedule)
_STATES = Packed(ScheduleState)
_NO_LEASE = LeaseRecord(token=0, run="", holder="", expires_at=0)
#: A due time that passed longer ago than this was missed, for schedules that do not catch up.
_PUNCTUAL = timedelta(minutes=5)
#: Jobs that have ended are kept for this long.
_KEPT = timedelta(days=90)

Targets = Callable[[Schedule], Sequence[str]]


@dataclass(frozen=True, slots=True)
class NewInterval:
    """How often a schedule is due from now on, and why."""

    seconds: int
    why: str


Cadence = Callable[[Schedule, ScheduleState], NewInterval | None]


@dataclass(frozen=True, slots=True)
class ScheduleBook:
    """Schedules and jobs of one realm. `filed` are the schedules of the configuration file."""

    realm: Realm
    clock: Clock
    filed: Mapping[str, Schedule]

    # --- schedules ---------------------------------------------------------------------------

    def schedules(self) -> dict[str, Schedule]:
        """All schedules by name. One of the file hides one of the store with the same name."""
        found = self.realm.index(self._log.head().schedules, _SCHEDULES).items()
        return {**{each.name: each for _, each in found}, **self.filed}

    def schedule(self, name: str) -> Schedule:
        """One schedule; NotFoundError if there is none of that name."""
        found = self.schedules().get(name)
        if found is None:
            raise NotFoundError(f"there is no schedule {name}", hint="lakesweep schedule list")
        return found

    def state(self, name: str) -> ScheduleState | None:
        """How far a schedule is; None before a service saw it for the first time."""
        return self.realm.index(self._log.head().states, _STATES).get(key(name))

    def put(self, schedule: Schedule) -> None:
        """Add a schedule to the store, or replace it. Its due times count from now on."""
        self._refuse_filed(schedule.name)
        now = micros(self.clock.now())

        def change(attempt: Attempt[SchedulesCommit], head: SchedulesCommit) -> SchedulesCommit:
            schedules = attempt.index(head.schedules, _SCHEDULES)
            states = attempt.index(head.states, _STATES)
            action = "update" if key(schedule.name) in schedules else "add"
            schedules.put(key(schedule.name), schedule)
            states.put(key(schedule.name), _joined_state(states.get(key(schedule.name)), now))
            attempt.record(Change(action, key("schedule", schedule.name)))
            return msgspec.structs.replace(head, schedules=seal(schedules), states=seal(states))

        self._log.commit(change, f"schedule {schedule.name}: {schedule.changed_by}")

    def remove(self, name: str, by: str) -> None:
        """Remove a schedule from the store. Jobs that it claimed still run."""
        self._refuse_filed(name)
        self.schedule(name)

        def change(attempt: Attempt[SchedulesCommit], head: SchedulesCommit) -> SchedulesCommit:
            schedules = attempt.index(head.schedules, _SCHEDULES)
            states = attempt.index(head.states, _STATES)
            for index in (schedules, states):
                if key(name) in index:
                    index.remove(key(name))
            attempt.record(Change("remove", key("schedule", name)))
            return msgspec.structs.replace(head, schedules=seal(schedules), states=seal(states))

        self._log.commit(change, f"schedule {name} is removed: {by}")

    def pause(self, name: str, by: str) -> None:
        """Let no due time of a schedule run until it is resumed."""
        self._set_paused(name, by, by)

    def resume(self, name: str, by: str) -> None:
        """Let a schedule run again. Due times that passed meanwhile are over."""
        self._set_paused(name, None, by)

    def _set_paused(self, name: str, paused_by: str | None, by: str) -> None:
        self.schedule(name)
        now = micros(self.clock.now())

        def change(attempt: Attempt[SchedulesCommit], head: SchedulesCommit) -> SchedulesCommit:
            states = attempt.index(head.states, _STATES)
            state = states.get(key(name)) or ScheduleState(claimed=now)
            claimed = state.claimed if paused_by else max(state.claimed, now)
            changed = msgspec.structs.replace(state, claimed=claimed, paused_by=paused_by)
            states.put(key(name), changed)
            attempt.record(Change("update", key("schedule", name)))
            return msgspec.structs.replace(head, states=seal(states))

        word = "paused" if paused_by else "resumed"
        self._log.commit(change, f"schedule {name} is {word}: {by}")

    def _refuse_filed(self, name: str) -> None:
        if name in self.filed:
            raise RefusedError(
                "schedule",
                f"schedule {name} is defined in the configuration file",
                hint=f"change [schedules.{name}] there; lakesweep schedule pause {name} works here",
            )

    # --- due times -----------------------------------------------------------------------------

    def claim(
        self, service: str, targets: Targets, cadence: Cadence | None = None
    ) -> list[JobRecord]:
        """Claim every due time that has come, once, and queue a job for each of its targets.

        `cadence` decides how often a schedule is due that decides that itself.
        """
        now = self.clock.now()
        schedules = self.schedules()
        head = self._log.head()
        states = self.realm.index(head.states, _STATES)
        fresh = [name for name in schedules if key(name) not in states]
        if fresh:
            self._begin(fresh, now)
        claimed: list[JobRecord] = []
        for schedule in schedules.values():
            state = states.get(key(schedule.name))
            if state is not None and _due_now(schedule, state, now) is not None:
                after = None if cadence is None else cadence(schedule, state)
                claimed += self._claim(schedule, service, targets(schedule), now, after)
        return claimed

    def run_now(self, name: str, by: str, targets: Targets) -> list[JobRecord]:
        """Queue the jobs of a schedule at once. Its due times stay as they are."""
        schedule = self.schedule(name)
        now = self.clock.now()
        due = PassedDue(now, 0)
        jobs = [self._new_job(schedule, target, due, by, now) for target in targets(schedule)]
        self._log.commit(lambda attempt, head: _with_jobs(attempt, head, jobs), f"{name}: {by}")
        return jobs

    def submit(
        self,
        kind: JobKind,
        target: str,
        words: Sequence[str],
        by: str,
        files: Mapping[str, str] | None = None,
    ) -> JobRecord:
        """Queue a job that belongs to no schedule, for the next free worker of a service."""
        now = self.clock.now()
        schedule = Schedule(name=f"{kind}-{token_hex(4)}", job=kind)
        job = self._new_job(schedule, target, PassedDue(now, 0), by, now)
        job = msgspec.structs.replace(job, schedule="", words=tuple(words), files=dict(files or {}))
        message = f"{kind} of {target}: {by}"
        self._log.commit(lambda attempt, head: _with_jobs(attempt, head, [job]), message)
        return job

    def _begin(self, names: Iterable[str], now: datetime) -> None:
        """Schedules of the file that no service saw before: their due times count from now on."""

        def change(
            attempt: Attempt[SchedulesCommit], head: SchedulesCommit
        ) -> SchedulesCommit | None:
            states = attempt.index(head.states, _STATES)
            new = [name for name in names if key(name) not in states]
            for name in new:
                states.put(key(name), ScheduleState(claimed=micros(now)))
            return msgspec.structs.replace(head, states=seal(states)) if new else None

        self._log.commit(change, "new schedules")

    def _claim(
        self,
        schedule: Schedule,
        service: str,
        targets: Sequence[str],
        now: datetime,
        after: NewInterval | None,
    ) -> list[JobRecord]:
        claimed: list[JobRecord] = []

        def change(
            attempt: Attempt[SchedulesCommit], head: SchedulesCommit
        ) -> SchedulesCommit | None:
            # An attempt that lost its swap is made again from the new head, where another service
            # may have claimed this due time.
            claimed.clear()
            states = attempt.index(head.states, _STATES)
            state = states.get(key(schedule.name))
            due = None if state is None else _due_now(schedule, state, now)
            if state is None or due is None:
                return None
            busy = _open_jobs_of(attempt, head, schedule.name)
            jobs = [
                self._due_job(schedule, each, due, service, now, busy.get(each))
                for each in targets or [""]
            ]
            # The claim and its jobs are one commit: a service that dies here leaves either a due
            # time to be claimed, or jobs to be carried out, never one without the other.
            settled = msgspec.structs.replace(state, claimed=micros(due.due))
            if after is not None:
                settled = msgspec.structs.replace(settled, interval=after.seconds, why=after.why)
            states.put(key(schedule.name), settled)
            claimed.extend(jobs)
            head = msgspec.structs.replace(head, states=seal(states))
            return _with_jobs(attempt, head, jobs)

        if not self._log.commit(change, f"{schedule.name} is due: {service}"):
            claimed.clear()
        return claimed

    def _due_job(
        self,
        schedule: Schedule,
        target: str,
        passed: PassedDue,
        by: str,
        now: datetime,
        busy: JobRecord | None,
    ) -> JobRecord:
        """The record of a due time: a job that waits for a worker, or why there is none."""
        why = None
        if _is_missed(schedule, passed.due, now):
            why = "missed while no service ran"
        elif not target and schedule.lake is not None:
            why = f"no lake matches {schedule.lake}"
        elif busy is not None:
            why = f"{busy.name} is still {busy.status}"
        if why is None:
            return self._new_job(schedule, target, passed, by, now)
        return msgspec.structs.replace(
            _job_of(schedule, target, passed, by, now),
            status=JobStatus.SKIPPED,
            finished_at=micros(now),
            message=why,
        )

    def _new_job(
        self, schedule: Schedule, target: str, passed: PassedDue, by: str, now: datetime
    ) -> JobRecord:
        # The lease is written before anything links to it, so no link is ever dangling.
        lease = self.realm.objects.insert(self.realm.new_id(), _NO_LEASE)
        log = self.realm.objects.insert(self.realm.new_id(), OutputRecord())
        assert lease is not None  # the ids are new
        assert log is not None
        job = _job_of(schedule, target, passed, by, now)
        return msgspec.structs.replace(job, lease=Link(lease.id), log=Link(log.id))

    # --- jobs ----------------------------------------------------------------------------------

    def open_jobs(self) -> list[JobRecord]:
        """Jobs that wait or run, oldest due time first."""
        head = self._log.head()
        return list(self._jobs(link for _, link in self.realm.index(head.open, LINKS).items()))

    def ended_jobs(self) -> Iterator[JobRecord]:
        """Jobs that have ended, newest due time first."""
        head = self._log.head()
        links = self.realm.index(head.ended, LINKS).prefix(b"", reverse=True)
        return self._jobs(link for _, link in links)

    def job(self, name: str) -> JobRecord:
        """One job; NotFoundError if there is none of that name."""
        for job in (*self.open_jobs(), *self.ended_jobs()):
            if job.name == name:
                return job
        raise NotFoundError(f"there is no job {name}", hint="lakesweep schedule list")

    def change_job(
        self, job: JobRecord, change: Callable[[JobRecord], JobRecord | None]
    ) -> JobRecord | None:
        """Replace a job as it is now by what `change` makes of it; None if it makes nothing.

        A job that has ended is not changed any more.
        """
        changed: list[JobRecord] = []

        def commit(
            attempt: Attempt[SchedulesCommit], head: SchedulesCommit
        ) -> SchedulesCommit | None:
            changed.clear()
            jobs = attempt.index(head.open, LINKS)
            link = jobs.get(_job_key(job))
            now = None if link is None else attempt.fetch(link, JobRecord)
            wanted = None if now is None else change(now)
            if wanted is None:
                return None
            changed.append(wanted)
            attempt.record(Change("update", key("job", job.name)))
            if wanted.status.is_open:
                jobs.put(_job_key(job), attempt.write(wanted))
                return msgspec.structs.replace(head, open=seal(jobs))
            # In one commit, so that a job is in exactly one of the two.
            ended = attempt.index(head.ended, LINKS)
            jobs.remove(_job_key(job))
            ended.put(_job_key(job), attempt.write(wanted))
            oldest = key(micros(self.clock.now() - _KEPT))
            for old in [
                *takewhile(lambda each: each < oldest, (each for each, _ in ended.items()))
            ]:
                ended.remove(old)
            return msgspec.structs.replace(head, open=seal(jobs), ended=seal(ended))

        self._log.commit(commit, f"job {job.name}")
        return changed[0] if changed else None

    def note_run(self, name: str, run: str) -> None:
        """Record the newest run that a job made."""
        job = self.job(name)
        self.change_job(job, lambda now: msgspec.structs.replace(now, run=run))

    def cancel(self, name: str, by: str) -> JobRecord:
        """Ask a job to end: one that waits ends at once, one that runs between two batches."""
        job = self.job(name)
        now = micros(self.clock.now())

        def change(now_job: JobRecord) -> JobRecord:
            asked = msgspec.structs.replace(now_job, cancelled_by=by)
            if now_job.status is JobStatus.RUNNING:
                return asked
            return msgspec.structs.replace(
                asked, status=JobStatus.CANCELLED, finished_at=now, message=f"cancelled by {by}"
            )

        return self.change_job(job, change) or job

    def _jobs(self, links: Iterable[Link]) -> Iterator[JobRecord]:
        return self._log.fetch(list(links), JobRecord)

    @property
    def _log(self) -> LogReference[SchedulesCommit]:
        return LogReference(self.realm, SCHEDULES, SchedulesCommit)


def _due_now(schedule: Schedule, state: ScheduleState, now: datetime) -> PassedDue | None:
    """The due time that has to be settled now, if any."""
    if state.paused_by is not None:
        return None
    settled = moment(state.claimed)
    return passed_due(schedule.times_from(settled, state.interval), settled, now)


def _is_missed(schedule: Schedule, due: datetime, now: datetime) -> bool:
    return schedule.catch_up is CatchUp.NONE and now - due > _PUNCTUAL


def _joined_state(before: ScheduleState | None, now: int) -> ScheduleState:
    """The state of a schedule that was added or changed: due times of the past are over."""
    if before is None:
        return ScheduleState(claimed=now)
    return msgspec.structs.replace(before, claimed=max(before.claimed, now))


def _with_jobs(
    attempt: Attempt[SchedulesCommit], head: SchedulesCommit, jobs: Iterable[JobRecord]
) -> SchedulesCommit:
    waiting = attempt.index(head.open, LINKS)
    ended = attempt.index(head.ended, LINKS)
    for job in jobs:
        index = waiting if job.status.is_open else ended
        index.put(_job_key(job), attempt.write(job))
        attempt.record(Change("add", key("job", job.name)))
    return msgspec.structs.replace(head, open=seal(waiting), ended=seal(ended))


def _job_of(
    schedule: Schedule, target: str, passed: PassedDue, by: str, now: datetime
) -> JobRecord:
    """A job for one due time and one target."""
    suffix = f"/{target}" if target else ""
    due = passed.due
    delay = start_delay(schedule.name, due, timedelta(seconds=schedule.jitter))
    return JobRecord(
        name=f"{schedule.name}@{format_moment(due)}{suffix}",
        schedule=schedule.name,
        job=schedule.job,
        target=target,
        due=micros(due),
        start_at=micros(due + delay),
        earlier=passed.earlier,
        claimed_by=by,
        claimed_at=micros(now),
        timeout=schedule.timeout,
        options=schedule.options,
    )


def _open_jobs_of(
    attempt: Attempt[SchedulesCommit], head: SchedulesCommit, schedule: str
) -> dict[str, JobRecord]:
    """The jobs of a schedule that wait or run, by target."""
    links = [link for _, link in attempt.index(head.open, LINKS).items()]
    jobs = [job for link in links if (job := attempt.fetch(link, JobRecord)) is not None]
    return {job.target: job for job in jobs if job.schedule == schedule}


def _job_key(job: JobRecord) -> bytes:
    return key(job.due, job.name)


def filed_schedules(schedules: Iterable[Schedule]) -> dict[str, Schedule]:
    """The schedules of the configuration file by name, each of them checked."""
    found = {
        each.name: msgspec.structs.replace(each, origin=ScheduleOrigin.FILE) for each in schedules
    }
    for each in found.values():
        each.check_times()
    return found
