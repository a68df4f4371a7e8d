"""Long work: it is queued as a job, answered with 202, and carried out as a process of its own.

Names are looked up before a job is queued, so that a wrong one is refused at once, and nothing that
a caller sends can be taken for an option of a command.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec

from lakesweep.app import App
from lakesweep.errors import UsageError
from lakesweep.operations.lakes.live_runs import (
    CancelRequested,
    RunFollower,
    cancel_run,
    resume_run,
    run_output,
)
from lakesweep.operations.lakes.plan_view import plan_kind
from lakesweep.operations.schedules import submitted_jobs
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import JobRequest, OutputPage, submit_job
from lakesweep.runs.schedules import JobKind
from lakesweep.server.api.call import Call, Nothing, Reply, StreamReply
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.sweep.holdings import find_holding
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.sweep.plan.stored_plan import find_plan
from lakesweep.units import parse_duration

EVENTS = "text/event-stream"
#: A comment after this many looks without news keeps proxies from closing the connection.
_QUIET_LOOKS = 15

_Guards = tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)], ...]


class PlanBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A lake to plan; what is left out is as the lake is configured."""

    lake: str
    grace: str | None = None
    mode: Literal["auto", "exact", "bloom"] = "auto"
    override: _Guards = ()


class ApplyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to apply a plan: into quarantine, unless that is declined."""

    quarantine: bool = True
    hold: str | None = None
    override: _Guards = ()


class RestoreBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files to restore, by their addresses or their paths in the lake; none means all."""

    paths: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...] = ()


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The guards that are overridden when a quarantine is emptied."""

    override: _Guards = ()


class LakeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lake of the configuration."""

    lake: str


class OutputRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which lines of output: from number `after` on."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs without their output, newest first."""

    jobs: tuple[JobView, ...]
    next: str | None = None


def plan_lake(call: Call[PlanBody]) -> Reply:
    """Plan a lake."""
    given = call.given
    modes = {"auto": (), "exact": ("--exact",), "bloom": ("--bloom",)}
    words = (*_duration("grace", given.grace), *modes[given.mode], *_overrides(given.override))
    return _submit(call.app, JobKind.PLAN, _lake(call.app, given.lake), words, call.caller.name)


def apply_plan(call: Call[ApplyBody]) -> Reply:
    """Apply a plan of a lake or a repository."""
    app, given = call.app, call.given
    if given.hold is not None and not given.quarantine:
        raise UsageError("only files in quarantine are held", hint="set quarantine, or no hold")
    is_lifecycle = plan_kind(app, call.names["plan"]) is PlanKind.LIFECYCLE
    kind = JobKind.LIFECYCLE_APPLY if is_lifecycle else JobKind.APPLY
    words = (
        *(("--quarantine",) if given.quarantine else ()),
        *_duration("hold", given.hold),
        *_overrides(given.override),
    )
    plan = find_plan(app.known_runs, call.names["plan"]).plan
    return _submit(app, kind, plan, words, call.caller.name)


def sweep_lake(call: Call[Nothing]) -> Reply:
    """Plan a lake, and apply the plan within its limits."""
    lake = _lake(call.app, call.names["lake"])
    return _submit(call.app, JobKind.SWEEP, lake, (), call.caller.name)


def check_lake(call: Call[LakeBody]) -> Reply:
    """Look for missing files."""
    lake = _lake(call.app, call.given.lake)
    return _submit(call.app, JobKind.CHECK, lake, (), call.caller.name)


def maintain_store(call: Call[Nothing]) -> Reply:
    """Delete what the store no longer needs."""
    return _submit(call.app, JobKind.MAINTAIN, "", (), call.caller.name)


def restore(call: Call[RestoreBody]) -> Reply:
    """Restore files from quarantine."""
    plan = find_holding(call.app.known_runs, call.names["plan"]).plan
    words = tuple(f"--path={path}" for path in call.given.paths)
    return _submit(call.app, JobKind.QUARANTINE_RESTORE, plan, words, call.caller.name)


def empty(call: Call[EmptyBody]) -> Reply:
    """Delete permanently what a plan set aside."""
    plan = find_holding(call.app.known_runs, call.names["plan"]).plan
    words = _overrides(call.given.override)
    return _submit(call.app, JobKind.QUARANTINE_RELEASE, plan, words, call.caller.name)


def cancel(call: Call[Nothing]) -> CancelRequested:
    """Ask a run to stop."""
    return cancel_run(call.app, call.names["run"], call.caller.name)


def resume(call: Call[Nothing]) -> Reply:
    """Continue a run that did not come to its end."""
    return _accepted(resume_run(call.app, call.names["run"], call.caller.name))


def show_output(call: Call[OutputRequest]) -> OutputPage:
    """What a run said."""
    return run_output(call.app, call.names["run"], call.given.after, call.given.limit)


def follow(call: Call[Nothing]) -> StreamReply:
    """What a run does, as server-sent events, until it ends."""
    follower = RunFollower(call.app, call.names["run"])

    def pieces() -> Iterator[bytes]:
        quiet = 0
        while not call.around.is_stopping():
            events = follower.look()
            lines = (
                f"event: {each.event}\ndata: {msgspec.json.encode(each).decode()}\n\n"
                for each in events
            )
            yield "".join(lines).encode()
            if follower.is_over:
                return
            quiet = 0 if events else quiet + 1
            if quiet % _QUIET_LOOKS == 1:
                yield b":\n\n"

    return StreamReply(pieces(), EVENTS)


def list_jobs(call: Call[ListRequest]) -> JobPage:
    """Jobs of schedules, and those that somebody asked for."""
    book = call.app.known_schedules
    waiting = sorted(map(JobView.of, book.open_jobs()), key=_place, reverse=True)
    every = heapq.merge(waiting, map(JobView.of, book.ended_jobs()), key=_place, reverse=True)
    page, after = page_of(every, call.given, _place, descending=True)
    return JobPage(jobs=tuple(msgspec.structs.replace(j, output=()) for j in page), next=after)


def _place(job: JobView) -> tuple[str, str]:
    return job.due.isoformat(), job.job


def show_job(call: Call[Nothing]) -> JobView:
    """One job."""
    return submitted_jobs.show_job(call.app, call.names["job"])


def cancel_job(call: Call[Nothing]) -> JobView:
    """End a job."""
    return submitted_jobs.cancel_job(call.app, call.names["job"], call.caller.name)


def show_job_output(call: Call[OutputRequest]) -> OutputPage:
    """What a job wrote."""
    given = call.given
    return submitted_jobs.job_output(call.app, call.names["job"], given.after, given.limit)


def _submit(app: App, kind: JobKind, target: str, words: tuple[str, ...], by: str) -> Reply:
    return _accepted(submit_job(app, JobRequest(kind, target, words, by)))


def _accepted(job: JobView) -> Reply:
    location = f"/api/v1/jobs/{quote(job.job, safe='')}"
    return Reply(job, HTTPStatus.ACCEPTED, headers={"location": location})


def _lake(app: App, name: str) -> str:
    """A lake of the configuration. NotFoundError if there is none of that name."""
    return app.lake(name).name


def _duration(option: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    parse_duration(text)
    return (f"--{option}={text}",)


def _overrides(guards: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"--override={guard}" for guard in guards)
