"""Jobs, and runs while they run: how far they are, what they write, and how to stop them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Annotated

import msgspec

from lakesweep.operations.lakes.live_runs import (
    CancelRequested,
    RunFollower,
    cancel_run,
    resume_run,
    run_output,
)
from lakesweep.operations.schedules import submitted_jobs
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import JobOutcome, OutputPage
from lakesweep.server.api.call import Call, Nothing, Reply, StreamReply
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.server.api.submissions import accepted

EVENTS = "text/event-stream"
#: A comment after this many looks without news keeps proxies from closing the connection.
QUIET_LOOKS = 15


class OutputRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which lines of output: from number `after` on."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs without their output, newest first."""

    jobs: tuple[JobView, ...]
    next: str | None = None


def cancel(call: Call[Nothing]) -> CancelRequested:
    """Ask a run to stop."""
    return cancel_run(call.app, call.names["run"], call.caller.name)


def resume(call: Call[Nothing]) -> Reply:
    """Continue a run that did not come to its end."""
    return accepted(resume_run(call.app, call.names["run"], call.caller.name))


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
            if quiet % QUIET_LOOKS == 1:
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


def show_job_result(call: Call[Nothing]) -> JobOutcome:
    """What the command of a job printed for programs."""
    return submitted_jobs.job_outcome(call.app, call.names["job"])
