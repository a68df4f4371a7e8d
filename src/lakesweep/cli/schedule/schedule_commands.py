"""`lakesweep schedule`: jobs that the service runs on a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import parse_properties
from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_moment, parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.schedules.schedules import JobView, ScheduleView

app = group(
    "schedule",
    "Jobs that lakesweep serve runs on a schedule.",
    examples=[
        "lakesweep schedule add nightly --job sweep --lake '*' --cron '0 2 * * *'",
        "lakesweep schedule list",
        "lakesweep schedule pause nightly",
    ],
)

_MOST_LINES = 100_000
_AUTO = "auto"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]


@command(
    app,
    "add",
    remote=True,
    examples=[
        "lakesweep schedule add nightly --job sweep --lake prod --cron '0 2 * * *'",
        "lakesweep schedule add early --job check --lake '*' --cron '0 6 * * 1' --zone Japan",
        "lakesweep schedule add hold --job quarantine-empty --every 6h",
    ],
)
def add(
    context: Context,
    name: Name,
    job: Annotated[
        str,
        typer.Option(
            "--job",
            metavar="JOB",
            help="sweep, check, maintain, lifecycle, iceberg-expire, paimon-orphans,"
            " paimon-expire or quarantine-empty.",
        ),
    ],
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="PATTERN", help="A lake, or a pattern such as '*'."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="URI", help="A table, a Paimon warehouse, or a repository."
        ),
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option("--cron", metavar="FIELDS", help="Minute, hour, day, month and weekday."),
    ] = None,
    zone: Annotated[
        str, typer.Option("--zone", metavar="ZONE", help="The time zone of --cron.")
    ] = "UTC",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION|auto", help="In place of --cron."),
    ] = None,
    shortest: Annotated[
        str, typer.Option(metavar="DURATION", help="The shortest interval of --every auto.")
    ] = "1h",
    longest: Annotated[
        str, typer.Option(metavar="DURATION", help="The longest interval of --every auto.")
    ] = "7d",
    jitter: Annotated[
        str, typer.Option("--jitter", metavar="DURATION", help="Spread starts over this time.")
    ] = "0s",
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="DURATION", help="Stop a job that takes longer."),
    ] = None,
    catch_up: Annotated[
        bool,
        typer.Option(
            "--catch-up/--no-catch-up",
            help="Run once for due times that passed while no service ran.",
        ),
    ] = True,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An option of the job's command. Repeatable."
        ),
    ] = None,
) -> None:
    """Keep a schedule in the store, or replace the one of that name."""
    from lakesweep.operations.schedules.schedules import add_schedule, parse_job
    from lakesweep.runs.schedules import CatchUp, Schedule

    schedule = Schedule(
        name=name,
        job=parse_job(job),
        lake=lake,
        target=target,
        options=parse_properties(option),
        cron=cron,
        zone=zone,
        every=None if every in (None, _AUTO) else _seconds(every),
        adaptive=(_seconds(shortest), _seconds(longest)) if every == _AUTO else None,
        jitter=_seconds(jitter),
        timeout=None if timeout is None else _seconds(timeout),
        catch_up=CatchUp.ONCE if catch_up else CatchUp.NONE,
    )
    _show(context, context.call(add_schedule, schedule))
    context.output.say("lakesweep serve runs it")


@command(
    app, "list", remote=True, examples=["lakesweep schedule list", "lakesweep schedule list --json"]
)
def list_all(context: Context) -> None:
    """List all schedules: when they are due next, and how the last job ended."""
    from lakesweep.operations.schedules.schedules import list_schedules

    found = context.call(list_schedules)
    rows = [_row(each) for each in found.schedules]
    columns = ("schedule", "job", "on", "when", "next due", "last")
    context.output.result(found, TextTable(columns, rows))
    context.output.say(format_count(len(rows), "schedule"))


@command(app, "show", remote=True, examples=["lakesweep schedule show nightly"])
def show(context: Context, name: Name) -> None:
    """Show one schedule with its next due times and its newest jobs."""
    from lakesweep.operations.schedules.schedules import show_schedule

    _show(context, context.call(show_schedule, name))


@command(app, "pause", remote=True, examples=["lakesweep schedule pause nightly"])
def pause(context: Context, name: Name) -> None:
    """Let no due time of a schedule run until it is resumed."""
    from lakesweep.operations.schedules.schedules import pause_schedule

    _show(context, context.call(pause_schedule, name))


@command(app, "resume", remote=True, examples=["lakesweep schedule resume nightly"])
def resume(context: Context, name: Name) -> None:
    """Let a paused schedule run again. Due times that passed meanwhile are over."""
    from lakesweep.operations.schedules.schedules import resume_schedule

    _show(context, context.call(resume_schedule, name))


@command(app, "run", remote=True, examples=["lakesweep schedule run nightly"])
def run(context: Context, name: Name) -> None:
    """Queue the jobs of a schedule now, for the next free worker of a service."""
    from lakesweep.operations.schedules.schedules import run_schedule

    context.output.structs(context.call(run_schedule, name), _job_text)


@command(
    app,
    "jobs",
    remote=True,
    examples=[
        "lakesweep schedule jobs --limit 5",
        "lakesweep schedule jobs nightly@2026-06-01T02:00:00Z/prod --output",
        "lakesweep schedule jobs nightly@2026-06-01T02:00:00Z/prod --cancel",
    ],
)
def jobs(
    context: Context,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="One job.", show_default=False)
    ] = None,
    output: Annotated[
        bool, typer.Option("--output", help="Print the last lines that the job wrote.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the job; one that runs between two batches.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="List at most this many.")] = 20,
) -> None:
    """List jobs: those that wait or run, then those that have ended, newest first."""
    from itertools import islice

    from lakesweep.operations.schedules import submitted_jobs as operations

    if job is None:
        found = list(islice(context.call(operations.list_jobs), limit))
        context.output.structs(found, _job_text)
        context.output.say(format_count(len(found), "job"))
    elif output:
        page = context.call(operations.job_output, job, limit=_MOST_LINES)
        lines = [("", line) for line in page.lines]
        context.output.result(page, TextTable(("lines of", job), lines))
    elif cancel:
        _show_job(context, context.call(operations.cancel_job, job))
    else:
        _show_job(context, context.call(operations.show_job, job))


@command(app, "remove", remote=True, examples=["lakesweep schedule remove nightly"])
def remove(context: Context, name: Name) -> None:
    """Remove a schedule. Jobs that wait or run stay."""
    from lakesweep.operations.schedules.schedules import remove_schedule

    context.call(remove_schedule, name)
    context.output.say(f"schedule {name} is removed")


def _seconds(text: str) -> int:
    return int(parse_duration(text) / timedelta(seconds=1))


def _show(context: Context, view: ScheduleView) -> None:
    state = f"paused by {view.paused_by}" if view.paused_by else "active"
    rows = [
        ("job", view.job),
        *([("on", on)] if (on := view.lake or view.target) else []),
        ("when", view.when),
        *([("now every", f"{view.interval}: {view.why}")] if view.interval else []),
        ("state", state),
        ("defined by", view.changed_by),
        *(("due", _time(due)) for due in view.next_due),
    ]
    tables = [TextTable(("schedule", view.name), rows)]
    if view.jobs:
        jobs = [(_time(each.due), each.target, each.status, each.message) for each in view.jobs]
        tables.append(TextTable(("due", "on", "status", "message"), jobs))
    context.output.result(view, *tables)


def _row(view: ScheduleView) -> tuple[str, ...]:
    due = "paused" if view.paused_by else _time(view.next_due[0]) if view.next_due else "never"
    last = view.jobs[0].status if view.jobs else "-"
    return (view.name, view.job, view.lake or view.target or "-", view.when, due, last)


def _job_text(job: JobView) -> str:
    return "  ".join(filter(None, (job.job, job.status, job.run, job.message)))


def _show_job(context: Context, job: JobView) -> None:
    rows = [
        ("does", f"{job.kind} {job.target}".strip()),
        ("status", job.status),
        *([("run", job.run)] if job.run else []),
        ("claimed by", job.claimed_by),
        *([("message", job.message)] if job.message else []),
        *(("", line) for line in job.output),
    ]
    context.output.result(job, TextTable(("job", job.job), rows))


def _time(moment: datetime) -> str:
    return format_moment(moment.replace(microsecond=0))
