"""Services, supervisors and workers as real processes that are killed, on a clock that runs fast.

All processes are forked from one that has loaded everything. Time passes `FACTOR` times as fast as
on the wall, so that leases of minutes end within seconds, and each service may have a clock of its
own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from lakesweep.app import JOB_VARIABLE, App
from lakesweep.bench.processes import fresh_processes
from lakesweep.config.file import config_from_values
from lakesweep.runs.schedules import JobKind, Schedule
from lakesweep.scheduler.service import SchedulerService
from lakesweep.scheduler.supervisor import Supervisor

FACTOR = 30.0
_START = datetime(2026, 6, 1, tzinfo=UTC)
#: Says that the job began, works for a moment, and says that it ended. Its pid is a victim. If
#: another worker of the same target lives, both would delete the same files: it says that, too.
_WORKER = (
    "for t; do :; done; "
    'if [ -e "$0/at-$t" ] && kill -0 "$(cat "$0/at-$t")" 2> /dev/null; then '
    'echo "twice $t" >> "$0/log"; fi; echo "$$" > "$0/at-$t"; '
    f'echo "$$" >> "$0/workers"; echo "began ${JOB_VARIABLE}" >> "$0/log"; sleep 0.1; '
    f'echo "ended ${JOB_VARIABLE}" >> "$0/log"; rm -f "$0/at-$t"'
)


@dataclass(frozen=True)
class FastClock:
    """Time since `origin`, a moment on the wall, `FACTOR` times as fast, off by some seconds."""

    origin: float
    off_seconds: float = 0.0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.monotonic() + self.off_seconds)

    def monotonic(self) -> float:
        return (time.time() - self.origin) * FACTOR

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / FACTOR)


@dataclass(frozen=True)
class Storm:
    """A store with schedules, and a folder in which workers write what they do."""

    url: str
    folder: Path
    origin: float

    def app(self, off_seconds: float = 0.0) -> App:
        """Everything wired to the store, with a clock of its own."""
        config = config_from_values({"store": {"url": self.url}})
        return App(config, folder=self.folder, clock=FastClock(self.origin, off_seconds))

    def schedules(self, count: int, every: int) -> Iterator[Schedule]:
        """Schedules that do not wait for each other."""
        for number in range(count):
            yield Schedule(
                name=f"s{number}", job=JobKind.PAIMON_ORPHANS, target=f"t{number}", every=every
            )

    def began(self) -> list[str]:
        """The jobs that workers began, as often as they did."""
        return self._told("began ")

    def twice(self) -> list[str]:
        """The targets that two workers had at the same time."""
        return self._told("twice ")

    def _told(self, word: str) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.removeprefix(word) for line in lines if line.startswith(word)]

    def pids(self, kind: str) -> list[int]:
        """Processes of a kind that lived once; some may be gone."""
        file = self.folder / kind
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    @contextmanager
    def service(self, off_seconds: float = 0.0) -> Iterator[BaseProcess]:
        """A service that runs while the block does, or until it is killed."""
        process = self.start(off_seconds)
        try:
            yield process
        finally:
            process.kill()
            process.join()

    def start(self, off_seconds: float = 0.0) -> BaseProcess:
        """A service."""
        process = fresh_processes().Process(target=serve, args=(self, off_seconds))
        process.start()
        return process

    def kill(self, kind: str, chance: Random) -> None:
        """Kill one of the last processes of a kind, if it still lives."""
        victims = self.pids(kind)[-4:]
        if victims:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)


def serve(storm: Storm, off_seconds: float) -> None:
    """What a service's process does until it is killed."""
    app = storm.app(off_seconds)
    say: Callable[[str], object] = lambda _: None  # noqa: E731
    service = SchedulerService(
        app, None, 3, None, say, start=lambda job: _Fork(storm, off_seconds, job)
    )
    while True:
        service.tick()
        time.sleep(0.05)


class _Fork:
    """A supervisor as a fork of its service, which outlives it."""

    def __init__(self, storm: Storm, off_seconds: float, job: str) -> None:
        self._pid = os.fork()
        if not self._pid:
            try:
                os.setsid()
                _append(storm.folder / "supervisors", str(os.getpid()))
                supervise(storm, off_seconds, job)
            finally:
                os._exit(0)

    def poll(self) -> int | None:
        found, status = os.waitpid(self._pid, os.WNOHANG)
        return None if not found else os.waitstatus_to_exitcode(status)


def supervise(storm: Storm, off_seconds: float, job: str) -> None:
    """What a supervisor's process does: carry out one job."""
    app = storm.app(off_seconds)
    prefix = ["/bin/sh", "-c", _WORKER, str(storm.folder)]
    Supervisor(
        app.schedules, prefix, app.clock, look_seconds=0.1, busy_seconds=0.1, renew_seconds=0.4
    ).run(job)


def _append(file: Path, line: str) -> None:
    with file.open("a") as stream:
        stream.write(f"{line}\n")
