"""The overview, the lakes and their roots."""

from __future__ import annotations

from contextlib import suppress

from lakesweep.errors import DamagedError, NotFoundError
from lakesweep.operations.lakes.overview import FreedDay, running_now, show_overview
from lakesweep.operations.lakes.plan_view import view_plan
from lakesweep.operations.lakes.runs import RunFilter, every_run
from lakesweep.operations.schedules.submitted_jobs import JobRequest, submit_job, target_jobs
from lakesweep.runs.records import RunKind
from lakesweep.runs.schedules import JobKind
from lakesweep.server.api import lakes as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.console.runs import is_open
from lakesweep.server.console.view import PageView, encoded, go_to, link
from lakesweep.sweep.inspect.charts import Bar
from lakesweep.units import format_count, format_size


def overview(call: Call[Nothing]) -> PageView:
    """What wants a person first, then everything else at one glance."""
    found = show_overview(call.app)
    return PageView(
        template="overview.html",
        title="Overview",
        values={"overview": found, "running": found.running, "freed": _freed(found.freed)},
        api="/api/v1/lakes",
        command="lakesweep lakes",
        is_live=bool(found.running),
    )


def _freed(days: tuple[FreedDay, ...]) -> list[Bar]:
    return [
        Bar(f"{each.day:%d %b}\n{format_count(each.files, 'file')}", each.bytes, _short(each.bytes))
        for each in days
    ]


def _short(size_bytes: int) -> str:
    return format_size(size_bytes) if size_bytes else ""


def overview_events(call: Call[Nothing]) -> PageView:
    """What runs now, for the overview."""
    running = running_now(call.app)
    return PageView(
        template="_running.html",
        title="Running now",
        values={"running": running},
        is_over=not running,
    )


def list_lakes(call: Call[ListRequest]) -> PageView:
    """All lakes."""
    return PageView(
        template="lakes.html",
        title="Lakes",
        values={"page": api.list_lakes(call)},
        api="/api/v1/lakes",
        command="lakesweep lakes",
    )


def show_lake(call: Call[ListRequest]) -> PageView:
    """One lake, its roots, and what its newest plan could not read."""
    name = call.names["lake"]
    given: Call[Nothing] = Call(call.around, call.caller, call.names, Nothing())
    lake = api.show_lake(given)
    plan, jobs = None, target_jobs(call.app, name)
    if lake.last_plan is not None:
        # A lake has its page even if the files of its newest plan are gone.
        with suppress(NotFoundError, DamagedError):
            plan = view_plan(call.app, lake.last_plan.plan)
    return PageView(
        template="lake.html",
        title=f"Lake {name}",
        values={
            "lake": lake,
            "page": api.list_roots(call),
            "plan": plan,
            "jobs": jobs,
            "check": next(every_run(call.app, RunFilter(lake=name, kind=RunKind.CHECK)), None),
        },
        api=link("api", "v1", "lakes", name),
        command="lakesweep lakes",
        is_live=any(map(is_open, jobs)),
    )


def plan_lake(call: Call[Nothing]) -> Reply:
    """Queue a plan of a lake."""
    return _queue(call, JobKind.PLAN)


def check_lake(call: Call[Nothing]) -> Reply:
    """Queue a check of a lake."""
    return _queue(call, JobKind.CHECK)


def _queue(call: Call[Nothing], kind: JobKind) -> Reply:
    name = call.app.lake(call.names["lake"]).name
    submit_job(call.app, JobRequest(kind, name, by=call.caller.name))
    return go_to(f"/lakes/{encoded(name)}?done=queued")
