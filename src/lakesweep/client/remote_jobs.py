"""Long work through a service: queue a job, show how far it is, and give its result.

The job belongs to the service. A client that is interrupted, or loses its connection, ends nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from lakesweep.client.connection import ServiceConnection, error_of, segment
from lakesweep.errors import (
    IncompleteError,
    LakesweepError,
    NotFoundError,
    RefusedError,
    ServiceUnreachableError,
    StoppedError,
)
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.lakes.live_runs import RunEvent, RunEventKind, RunProgressView
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import JobOutcome
from lakesweep.progress import Progress, ProgressTask
from lakesweep.runs.job_records import JobFailure, JobStatus

_EVENTS = "text/event-stream"
_DATA = b"data: "
#: How often a job is looked at.
_LOOK_SECONDS = 0.5
#: A service that is away for longer is given up; the job goes on.
_AWAY_SECONDS = 60.0
#: A job that waits for longer is worth a line.
_PATIENCE_SECONDS = 10.0
_OVERRIDE = re.compile(r"--override (\S+)")

Result = TypeVar("Result")


class EndedJob(msgspec.Struct, frozen=True):
    """A job that has ended, and what its command printed."""

    view: JobView
    outcome: JobOutcome


@dataclass
class RemoteJobs:
    """Carries out jobs through a service."""

    connection: ServiceConnection
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _followed: set[str] = field(default_factory=set)

    def result(
        self, path: str, body: Mapping[str, object], kind: type[Result], io: Interaction
    ) -> Result:
        """The result of a job with one document, or the error that its command ended with."""
        outcome = self.carry_out(path, body, io).outcome
        if not outcome.documents:
            raise failure_of(outcome)
        return self.connection.decoded(outcome.documents[-1], kind)

    def carry_out(self, path: str, body: Mapping[str, object], io: Interaction) -> EndedJob:
        """Queue a job, and show how far it is until it has ended."""
        job = self.connection.send("POST", path, JobView, body)
        try:
            ended = self._wait(job, io)
        except (KeyboardInterrupt, ServiceUnreachableError):
            io.notify(f"the job goes on; lakesweep schedule jobs {job.job} tells how it ends")
            raise
        outcome = self.connection.get(f"/jobs/{segment(job.job)}/result", JobOutcome)
        if outcome.is_cut:
            raise IncompleteError(
                "the result is too long to be kept with its job",
                hint="run the command on the machine of the service",
            )
        if not outcome.documents and outcome.error is None and outcome.exit_code != 0:
            raise StoppedError(
                f"job {job.job} is {ended.status}{f': {ended.message}' if ended.message else ''}",
                hint=f"lakesweep schedule jobs {job.job} --output",
            )
        return EndedJob(ended, outcome)

    def follow(self, run: str) -> Iterator[RunEvent]:
        """What a run does, as it does it."""
        with self.connection.stream(f"/runs/{segment(run)}/events", _EVENTS) as stream:
            for line in stream.lines():
                if line.startswith(_DATA):
                    yield self.connection.decoded(line[len(_DATA) :], RunEvent)

    def _wait(self, job: JobView, io: Interaction) -> JobView:
        began, is_told = self.monotonic(), False
        answered = began
        while True:
            try:
                job = self.connection.get(f"/jobs/{segment(job.job)}", JobView)
                answered = self.monotonic()
                if not JobStatus(job.status).is_open:
                    return job
                if job.run is not None and job.run not in self._followed:
                    self._show(job.run, io)
                    continue
            except ServiceUnreachableError:
                if self.monotonic() - answered > _AWAY_SECONDS:
                    raise
            is_waiting = job.status == JobStatus.QUEUED
            if is_waiting and not is_told and self.monotonic() - began > _PATIENCE_SECONDS:
                io.notify(f"job {job.job} waits for a free worker of the service")
                is_told = True
            self.sleep(_LOOK_SECONDS)

    def _show(self, run: str, io: Interaction) -> None:
        """Show the progress and the notices of a run until its end."""
        with ShownStages(io.progress) as stages:
            try:
                for event in self.follow(run):
                    if event.progress is not None:
                        stages.show(event.progress)
                    for line in event.output.lines if event.output else ():
                        io.notify(line)
                    if event.event is RunEventKind.END:
                        self._followed.add(run)
            except NotFoundError:  # it is announced before it is recorded
                self.sleep(_LOOK_SECONDS)


class ShownStages(ExitStack):
    """The stages of a run that works elsewhere, as tasks of a Progress here."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._tasks: list[ProgressTask] = []
        self._counts: list[tuple[int, int]] = []
        self._open: dict[int, ExitStack] = {}

    def show(self, view: RunProgressView) -> None:
        """Bring the tasks up to date; stages never go away."""
        for number, stage in enumerate(view.stages):
            if number == len(self._tasks):
                shown = self.enter_context(ExitStack())
                task = shown.enter_context(
                    self._progress.task(stage.stage, total=stage.total, unit=stage.unit)
                )
                self._tasks.append(task)
                self._counts.append((0, 0))
                self._open[number] = shown
            count, size = self._counts[number]
            if (stage.count, stage.bytes) != (count, size):
                self._tasks[number].advance(stage.count - count, stage.bytes - size)
                self._counts[number] = stage.count, stage.bytes
            if not stage.running and number in self._open:
                self._open.pop(number).close()


def failure_of(outcome: JobOutcome) -> LakesweepError:
    """The error that the command of a job ended with."""
    failure = outcome.error or JobFailure(
        type="LakesweepError", message=f"job {outcome.job} has no result", exit_code=1
    )
    error = error_of(failure.type, failure.message, failure.hint, failure.exit_code)
    if isinstance(error, RefusedError):
        # The hint has the command of the job; who asked typed another one.
        error.overrides = _overrides(failure.hint)
    return error


def _overrides(hint: str | None) -> tuple[str, ...]:
    _, marker, command = (hint or "").partition(", then: ")
    return tuple(_OVERRIDE.findall(command)) if marker else ()


def arguments(**given: object) -> dict[str, object]:
    """The members of a body that are set, as JSON values."""
    return {name: msgspec.to_builtins(value) for name, value in given.items() if value is not None}
