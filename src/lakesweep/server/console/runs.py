"""Runs, live and past, and schedules."""

from __future__ import annotations

import msgspec

from lakesweep.operations.lakes.live_runs import (
    RunProgressView,
    cancel_run,
    resume_run,
    run_output,
    run_progress,
)
from lakesweep.operations.lakes.runs import RunView
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.server.api import runs as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.api.runs import RunsRequest
from lakesweep.server.console.view import PageView, command_line, encoded, go_to, link

_LINES = 200
_ENDED = frozenset({RunStatus.DONE.value, RunStatus.RUNNING.value})


class RunPageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which part of the output of a run to show: from this line on."""

    line: int = 0


def list_runs(call: Call[RunsRequest]) -> PageView:
    """Runs, newest first."""
    chosen = call.given
    options = [*(["--lake", chosen.lake] if chosen.lake else [])]
    options += ["--status", chosen.status] if chosen.status else []
    return PageView(
        template="runs.html",
        title="Runs",
        values={
            "page": api.list_runs(call),
            "lakes": sorted(call.app.config.lakes),
            "statuses": [each.value for each in RunStatus],
            "kinds": [*(each.value for each in RunKind), "maintain"],
            "chosen": chosen,
        },
        api="/api/v1/runs",
        command=command_line("runs", *options),
    )


def show_run(call: Call[RunPageRequest]) -> PageView:
    """One run: stages, figures, failures, its output."""
    name = call.names["run"]
    found = api.show_run(Call(call.around, call.caller, call.names, Nothing()))
    run = found if isinstance(found, RunView) else RunView.of_maintenance(found)
    is_running = run.status == RunStatus.RUNNING.value
    return PageView(
        template="run.html",
        title=f"Run {run.run}",
        values={
            "run": run,
            "progress": run_progress(call.app, run.run),
            "output": run_output(call.app, run.run, call.given.line, _LINES),
            "failures": run.figures.get("failures", ()),
            "is_running": is_running,
            "can_resume": run.status not in _ENDED,
        },
        api=link("api", "v1", "runs", name),
        command=command_line("runs", name),
        is_live=is_running,
    )


def run_events(call: Call[Nothing]) -> PageView:
    """How far a run is."""
    found = api.show_run(call)
    progress: RunProgressView | None = run_progress(call.app, call.names["run"])
    return PageView(
        template="_progress.html",
        title="Progress",
        values={"progress": progress},
        is_over=found.finished is not None,
    )


def cancel(call: Call[Nothing]) -> Reply:
    """Ask a run to stop."""
    cancel_run(call.app, call.names["run"], call.caller.name)
    return go_to(f"/runs/{encoded(call.names['run'])}?done=cancelled")


def resume(call: Call[Nothing]) -> Reply:
    """Queue what continues a run."""
    resume_run(call.app, call.names["run"], call.caller.name)
    return go_to(f"/runs/{encoded(call.names['run'])}?done=queued")


def list_schedules(call: Call[ListRequest]) -> PageView:
    """All schedules."""
    return PageView(
        template="schedules.html",
        title="Schedules",
        values={"page": api.list_schedules(call)},
        api="/api/v1/schedules",
        command="lakesweep schedule list",
    )


def show_schedule(call: Call[Nothing]) -> PageView:
    """One schedule with its due times and newest jobs."""
    name = call.names["name"]
    return PageView(
        template="schedule.html",
        title=f"Schedule {name}",
        values={"schedule": api.show_schedule(call)},
        api=link("api", "v1", "schedules", name),
        command=command_line("schedule", "show", name),
    )


def pause(call: Call[Nothing]) -> Reply:
    """Let no due time run."""
    api.pause_schedule(call)
    return _schedule(call, "paused")


def resume_schedule(call: Call[Nothing]) -> Reply:
    """Let due times run again."""
    api.resume_schedule(call)
    return _schedule(call, "resumed")


def run_schedule(call: Call[Nothing]) -> Reply:
    """Queue the jobs of a schedule now."""
    api.run_schedule(call)
    return _schedule(call, "queued")


def _schedule(call: Call[Nothing], done: str) -> Reply:
    return go_to(f"/schedules/{encoded(call.names['name'])}?done={done}")
