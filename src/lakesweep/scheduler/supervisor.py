"""Supervise one job: hold its lease, run its command, and tell the store how it goes.

The supervisor is a process of its own, so a job outlives the service that started it. The command
is its child, and is asked to stop (SIGTERM) if the supervisor dies, if the job is cancelled, and if
it takes longer than its schedule allows. One that does not stop is killed: its lease fences what it
held, and the next run resumes what it left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lakesweep.app import JOB_VARIABLE
from lakesweep.clock import Clock, SystemClock, micros, moment
from lakesweep.errors import LakesweepError
from lakesweep.operations.schedules.jobs import command_of, is_busy, status_of
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.leases import RENEW_SECONDS, HeldLease, keep_renewing, take_lease
from lakesweep.runs.schedule_book import ScheduleBook
from lakesweep.runs.sessions import holder_name
from lakesweep.scheduler.job_output import JobLog, JobResult, read_in_threads, written_files
from lakesweep.store import Link

#: How often the record of a job is looked at and updated while it runs.
_LOOK_SECONDS = 2.0
#: A job whose lake is busy tries again after this.
_BUSY_SECONDS = 5.0
#: A command that was asked to stop has this long to finish its batch.
_KILL_SECONDS = 120.0
#: A process that the command left behind may keep its output open.
_OUTPUT_SECONDS = 5.0
_TAKEN_OVER = "another process took the job over"
#: How much lower the priority of a command is than that of the service, which people wait for. It
#: costs a run nothing on cores that are idle.
_NICE = 10
#: Linux: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


#: The words of a command before those of the job.
Prefix = Sequence[str]


def lakesweep_prefix(config: Path | None) -> Prefix:
    """The command line of this installation, with its configuration file."""
    options = [] if config is None else ["--config", str(config)]
    return [sys.executable, "-m", "lakesweep", *options, "--json"]


@dataclass
class Supervisor:
    """Runs one job to its end. `prefix` are the words before those of the job's command."""

    book: ScheduleBook
    prefix: Prefix
    clock: Clock = field(default_factory=SystemClock)
    look_seconds: float = _LOOK_SECONDS
    busy_seconds: float = _BUSY_SECONDS
    kill_seconds: float = _KILL_SECONDS
    renew_seconds: float = RENEW_SECONDS

    def run(self, name: str) -> JobStatus | None:
        """Carry a job out; None if another process has it, or it has ended.

        The record decides who has the job: one process moves it from queued to running. Its lease
        only shows that this process lives, so it is taken from an earlier attempt at once.
        """
        job = self.book.change_job(self.book.job(name), self._started)
        if job is None:
            return None
        assert job.lease is not None
        who = holder_name()
        lease = take_lease(
            self.book.realm, self.clock, f"job {name}", job.lease, name, who, superseded=name
        )
        with keep_renewing(lease, self.renew_seconds):
            return self._carry_out(job, lease)

    def _started(self, job: JobRecord) -> JobRecord | None:
        if job.status is not JobStatus.QUEUED:
            return None
        return msgspec.structs.replace(
            job,
            status=JobStatus.RUNNING,
            attempt=job.attempt + 1,
            started_at=micros(self.clock.now()),
        )

    def _carry_out(self, job: JobRecord, lease: HeldLease) -> JobStatus | None:
        log = JobLog(self.book.realm, job.log)
        while True:
            result = JobResult()
            code, why = self._run_command(job, lease, log, result)
            if why is not None or not is_busy(code):
                break
            if (why := self._wait(job, lease)) is not None:
                break
        log.keep()
        why = why or self._cancelled(job)
        if why == _TAKEN_OVER:
            lease.is_abandoned = True
            return None
        ended = msgspec.structs.replace(
            job,
            status=JobStatus.CANCELLED if why is not None else status_of(code, log.tail),
            finished_at=micros(self.clock.now()),
            exit_code=code,
            message=why or log.last_message,
            output=log.tail,
        )
        return self._record_end(ended, result, lease)

    def _cancelled(self, job: JobRecord) -> str | None:
        """Who cancelled the job, or the run that it made, if that is why it ended."""
        with suppress(LakesweepError):
            by = self.book.job(job.name).cancelled_by
            return None if by is None else f"cancelled by {by}"
        return None

    def _record_end(
        self, ended: JobRecord, result: JobResult, lease: HeldLease
    ) -> JobStatus | None:
        """Record how a job ended, for as long as the lease lasts if the store is away.

        Without a record the lease is left to expire: a service then takes the job for dead.
        """

        def change(now: JobRecord) -> JobRecord | None:
            if now.attempt != ended.attempt:
                return None
            return msgspec.structs.replace(
                ended, cancelled_by=now.cancelled_by, run=now.run, result=link
            )

        lease.is_abandoned = True
        link: Link | None = None
        while True:
            try:
                link = link or result.keep(self.book.realm)
                recorded = self.book.change_job(ended, change)
            except LakesweepError:
                if self.clock.now() >= lease.good_until:
                    raise
                time.sleep(self.look_seconds)
            else:
                lease.is_abandoned = False
                return None if recorded is None else recorded.status

    def _run_command(
        self, job: JobRecord, lease: HeldLease, log: JobLog, result: JobResult
    ) -> tuple[int, str | None]:
        """The exit code of the command, and why it was stopped, if it was."""
        with (
            written_files(job) as files,
            _start([*self.prefix, *command_of(job, files)], job.name) as process,
        ):
            readers = read_in_threads(process, log, result)
            why, asked_at = None, 0.0
            while process.poll() is None:
                log.keep()
                reason = self._reason_to_stop(job, lease)
                if reason is not None and why is None:
                    why, asked_at = reason, time.monotonic()
                    process.terminate()
                elif why is not None and time.monotonic() - asked_at >= self.kill_seconds:
                    process.kill()
                _wait_for(process, self.look_seconds)
            for reader in readers:
                reader.join(_OUTPUT_SECONDS)
        return process.returncode, why

    def _wait(self, job: JobRecord, lease: HeldLease) -> str | None:
        """Let a run of the same lake go first; why to give up, if the job should."""
        time.sleep(self.busy_seconds)
        return self._reason_to_stop(job, lease)

    def _reason_to_stop(self, job: JobRecord, lease: HeldLease) -> str | None:
        """Why the job should end now, if it should."""
        if lease.is_lost or self.clock.now() >= lease.good_until:
            return _TAKEN_OVER  # or it will be: the store did not hear of this process
        try:
            now = self.book.job(job.name)
        except LakesweepError:
            return None  # the store may be away for a while; the lease decides how long
        if now.attempt != job.attempt:
            return _TAKEN_OVER
        if now.cancelled_by is not None:
            return f"cancelled by {now.cancelled_by}"
        assert job.started_at is not None
        seconds = (self.clock.now() - moment(job.started_at)).total_seconds()
        if job.timeout is not None and seconds > job.timeout:
            return f"it took longer than its timeout of {job.timeout} s"
        return None


def _start(words: Sequence[str], job: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command, with words of a checked schedule
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, JOB_VARIABLE: job},
        preexec_fn=_give_way,  # noqa: PLW1509 - nothing of ours runs between fork and exec
    )


def _give_way() -> None:
    """Let requests of the service go first, and end with the parent, however that dies."""
    os.nice(_NICE)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:  # it died before
        os.kill(os.getpid(), signal.SIGTERM)


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
