"""Supervise one job: hold its lease, run its command, and tell the store how it goes.

The supervisor is a process of its own, so a job outlives the service that started it. The command
is its child, and is asked to stop (SIGTERM) if the supervisor dies, if the job is cancelled, and if
it takes longer than its schedule allows.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from lakesweep.clock import Clock, SystemClock, micros, moment
from lakesweep.errors import LakesweepError, LeaseHeldError
from lakesweep.operations.schedules.jobs import command_of, is_busy, status_of
from lakesweep.redaction import masked
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.leases import HeldLease, keep_renewing, take_lease
from lakesweep.runs.schedule_book import ScheduleBook
from lakesweep.runs.sessions import holder_name
from lakesweep.untrusted.text import printable

#: How often the record of a job is looked at and updated while it runs.
_LOOK_SECONDS = 2.0
#: A job whose lake is busy tries again after this.
_BUSY_SECONDS = 5.0
_MOST_LINES = 500
_LONGEST_LINE = 500
#: Linux: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


@dataclass
class Supervisor:
    """Runs one job to its end. `config` is the configuration file of the command."""

    book: ScheduleBook
    config: Path | None
    clock: Clock = field(default_factory=SystemClock)
    look_seconds: float = _LOOK_SECONDS
    busy_seconds: float = _BUSY_SECONDS

    def run(self, name: str) -> JobStatus | None:
        """Carry a job out; None if another process has it, or it has ended."""
        job = self.book.job(name)
        try:
            lease = take_lease(
                self.book.realm, self.clock, f"job {name}", job.lease, name, holder_name()
            )
        except LeaseHeldError:
            return None
        with keep_renewing(lease):
            started = self.book.change_job(job, self._started)
            return None if started is None else self._carry_out(started, lease)

    def _started(self, job: JobRecord) -> JobRecord | None:
        if job.status is not JobStatus.QUEUED:
            return None
        return msgspec.structs.replace(
            job,
            status=JobStatus.RUNNING,
            attempt=job.attempt + 1,
            started_at=micros(self.clock.now()),
        )

    def _carry_out(self, job: JobRecord, lease: HeldLease) -> JobStatus:
        lines: deque[str] = deque(maxlen=_MOST_LINES)
        while True:
            code, why = self._run_command(job, lease, lines)
            if why is not None or not is_busy(code):
                break
            if (why := self._wait(job, lease)) is not None:
                break
        ended = msgspec.structs.replace(
            job,
            status=JobStatus.CANCELLED if why is not None else status_of(code),
            finished_at=micros(self.clock.now()),
            exit_code=code,
            message=why or _last_message(lines),
            output=tuple(lines),
        )
        self._record_end(ended, lease)
        return ended.status

    def _record_end(self, ended: JobRecord, lease: HeldLease) -> None:
        """Record how a job ended, for as long as the lease lasts if the store is away.

        Without a record the lease is left to expire: a service then takes the job for dead.
        """

        def change(now: JobRecord) -> JobRecord | None:
            if now.attempt != ended.attempt:
                return None
            return msgspec.structs.replace(ended, cancelled_by=now.cancelled_by)

        lease.is_abandoned = True
        while True:
            try:
                self.book.change_job(ended, change)
            except LakesweepError:
                if self.clock.now() >= lease.good_until:
                    raise
                self.clock.sleep(self.look_seconds)
            else:
                lease.is_abandoned = False
                return

    def _run_command(
        self, job: JobRecord, lease: HeldLease, lines: deque[str]
    ) -> tuple[int, str | None]:
        """The exit code of the command, and why it was stopped, if it was."""
        with _start(self.config, command_of(job)) as process:
            assert process.stderr is not None
            reader = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
            reader.start()
            why = None
            while process.poll() is None:
                with_timeout = self._reason_to_stop(job, lease, lines)
                if with_timeout is not None and why is None:
                    why = with_timeout
                    process.terminate()
                _wait_for(process, self.look_seconds)
            reader.join()
        return process.returncode, why

    def _wait(self, job: JobRecord, lease: HeldLease) -> str | None:
        """Let a run of the same lake go first; why to give up, if the job should."""
        time.sleep(self.busy_seconds)
        return self._reason_to_stop(job, lease, None)

    def _reason_to_stop(
        self, job: JobRecord, lease: HeldLease, lines: deque[str] | None
    ) -> str | None:
        """Tell the store how far the job is, and look whether it should end."""
        if lease.is_lost:
            return "another process took the job over"
        try:
            now = self.book.change_job(job, lambda each: _with_output(each, job.attempt, lines))
            now = now or self.book.job(job.name)
        except LakesweepError:
            return None  # the store may be away for a while; the lease decides how long
        if now.attempt != job.attempt:
            return "another process took the job over"
        if now.cancelled_by is not None:
            return f"cancelled by {now.cancelled_by}"
        assert job.started_at is not None
        seconds = (self.clock.now() - moment(job.started_at)).total_seconds()
        if job.timeout is not None and seconds > job.timeout:
            return f"it took longer than its timeout of {job.timeout} s"
        return None


def _with_output(job: JobRecord, attempt: int, lines: deque[str] | None) -> JobRecord | None:
    output = job.output if lines is None else tuple(lines)
    if job.attempt != attempt or output == job.output:
        return None
    return msgspec.structs.replace(job, output=output)


def _start(config: Path | None, words: Sequence[str]) -> subprocess.Popen[bytes]:
    prefix = [sys.executable, "-m", "lakesweep"]
    options = [] if config is None else ["--config", str(config)]
    return subprocess.Popen(  # noqa: S603 - our own command, with words of a checked schedule
        [*prefix, *options, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread of ours runs yet
    )


def _end_with_parent() -> None:
    """Have the kernel ask this process to stop when its parent dies, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:  # it died before
        os.kill(os.getpid(), signal.SIGTERM)


def _read(stream: IO[bytes], lines: deque[str]) -> None:
    for line in stream:
        lines.append(printable(masked(line.decode(errors="replace").rstrip()))[:_LONGEST_LINE])


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _last_message(lines: Sequence[str]) -> str:
    """The error that a command ended with, or its last line."""
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or [*lines] or [""])[-1]
