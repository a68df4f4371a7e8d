"""Runs, live and past, and the jobs that wait for a worker."""

from __future__ import annotations

import msgspec

from lakesweep.operations.lakes.live_runs import (
    RunProgressView,
    can_run_again,
    cancel_run,
    resume_run,
    run_again,
    run_output,
    run_progress,
)
from lakesweep.operations.lakes.run_grid import run_grid
from lakesweep.operations.lakes.runs import RunView
from lakesweep.operations.schedules.schedules import JobView
from lakesweep.operations.schedules.submitted_jobs import target_jobs
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.server.api import runs as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.runs import RunsRequest
from lakesweep.server.console.view import PageView, command_line, encoded, go_to, link

_LINES = 200
_JOBS = 20
_ENDED = frozenset({RunStatus.DONE.value, RunStatus.RUNNING.value})


class RunPageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which part of the output of a run to show: from this line on."""

    line: int = 0


class JobsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the jobs to show work on: a lake or a plan; all if it is missing."""

    target: str | None = None


def list_runs(call: Call[RunsRequest]) -> PageView:
    """Runs, newest first."""
    chosen = call.given
    options = ["--lake", chosen.lake] if chosen.lake else []
    options += ["--status", chosen.status] if chosen.status else []
    jobs = target_jobs(call.app, most=_JOBS)
    is_first = chosen.cursor is None
    return PageView(
        template="runs.html",
        title="Runs",
        values={
            "page": api.list_runs(call),
            "lakes": sorted(call.app.config.lakes),
            "statuses": [each.value for each in RunStatus],
            "kinds": [*(each.value for each in RunKind), RunView.MAINTAIN],
            "chosen": chosen,
            "grid": run_grid(call.app) if is_first else None,
            "jobs": jobs,
        },
        api=f"/api/v1/runs{_query(chosen)}",
        command=command_line("runs", *options),
        is_live=bool(jobs),
    )


def _query(chosen: RunsRequest) -> str:
    fields = {"lake": chosen.lake, "status": chosen.status, "kind": chosen.kind}
    text = "&".join(f"{name}={encoded(value)}" for name, value in fields.items() if value)
    return f"?{text}" if text else ""


def jobs_events(call: Call[JobsRequest]) -> PageView:
    """Jobs of a target that wait or run, or of all; over as soon as none is left."""
    jobs = target_jobs(call.app, call.given.target, _JOBS)
    return PageView(
        template="_jobs.html",
        title="Jobs",
        values={"jobs": jobs},
        is_over=not any(map(is_open, jobs)),
    )


def is_open(job: JobView) -> bool:
    """Whether a job waits or runs."""
    return job.finished is None


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
            "can_run_again": not is_running and can_run_again(call.app, run) is not None,
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


def again(call: Call[Nothing]) -> Reply:
    """Queue the same work once more."""
    run_again(call.app, call.names["run"], call.caller.name)
    return go_to("/runs?done=queued")
