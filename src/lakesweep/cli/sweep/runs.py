"""`lakesweep runs` and `lakes`: what ran and how it ended, and the state of every lake."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import UsageError
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.lakes import LakeLine


_STOP = "stop"
_MOST_LINES = 100_000
_COLUMNS = ("lake", "health", "waste", "files", "planned", "last run")


def runs(
    context: Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN | stop RUN]",
            help="Show this run in full, or stop it.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="LAKE", help="Only runs of this lake.", show_default=False),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only runs in this status, such as done, incomplete or failed.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only runs that started then or later: a duration ago, or an RFC 3339 time.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="List at most this many runs.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show how far the run is until it ends.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop the run between two batches, wherever it works.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Have a service continue a run that did not end well.")
    ] = False,
    output: Annotated[
        bool, typer.Option("--output", help="Print the last lines that the run wrote.")
    ] = False,
) -> None:
    """List plans, applies, checks and maintenance runs, newest first; or show one run in full.

    --follow shows the stage, count, rate and time left of a run, and ends with its exit code: 0
    done, 3 refused, 4 incomplete, stopped or cancelled, 1 failed or dead. With --json it writes
    JSON lines.

    --cancel, or stop RUN, ends a run before its next batch. What it deleted stays deleted. --resume
    queues the same plan for lakesweep serve; applying it yourself resumes it, too.
    """
    actions = {_follow: follow, _stop: cancel, _resume: resume, _output: output}
    chosen = [action for action, is_asked in actions.items() if is_asked]
    match words or [], chosen:
        case [], []:
            _list(context, lake, status, since, limit)
        case [run], [] if run != _STOP:
            _show(context, run)
        case [run], [action]:
            action(context, run)
        case [word, run], [] if word == _STOP:
            _stop(context, run)
        case _:
            raise UsageError(
                "name one run and what to do with it", hint="lakesweep runs RUN --follow"
            )


def _list(
    context: Context, lake: str | None, status: str | None, since: str | None, limit: int
) -> None:
    from lakesweep.cli.render.record_lines import run_text
    from lakesweep.operations.lakes.runs import RunFilter, list_runs
    from lakesweep.units import parse_moment

    moment = None if since is None else parse_moment(since, context.clock.now())
    found = context.call(list_runs, RunFilter(lake, status, moment), limit)
    context.output.structs(found, run_text)
    context.output.say(f"{format_count(len(found), 'run')}, newest first")


def _show(context: Context, run: str) -> None:
    from lakesweep.cli.render.record_lines import MaintenanceLine, run_table, stage_table
    from lakesweep.operations.lakes.live_runs import run_progress
    from lakesweep.operations.lakes.runs import RunView, show_run

    found = context.call(show_run, run)
    if isinstance(found, RunView):
        progress = context.call(run_progress, run)
        stages = [] if progress is None or not progress.stages else [stage_table(progress)]
        context.output.result(found, run_table(found), *stages)
        return
    summary = run_table(RunView.of_maintenance(found))
    context.output.result(found, summary, MaintenanceLine(found).table())


def _follow(context: Context, run: str) -> None:
    from lakesweep.cli.render.record_lines import event_lines
    from lakesweep.operations.lakes.live_runs import follow_run

    for event in context.call(follow_run, run):
        if context.settings.json or event_lines(event):
            context.output.structs([event], event_lines)
        if event.exit_code:
            raise typer.Exit(event.exit_code)


def _stop(context: Context, run: str) -> None:
    from lakesweep.operations.lakes.live_runs import cancel_run

    context.output.result(context.call(cancel_run, run))
    context.output.say(f"{run} ends before its next batch")
    context.output.say(f"try: lakesweep runs {run} --follow")


def _resume(context: Context, run: str) -> None:
    from lakesweep.operations.lakes.live_runs import resume_run

    job = context.call(resume_run, run)
    context.output.result(job, TextTable(("job", job.job), [("status", job.status)]))
    context.output.say("lakesweep serve continues it")


def _output(context: Context, run: str) -> None:
    from lakesweep.operations.lakes.live_runs import run_output

    page = context.call(run_output, run, limit=_MOST_LINES)
    context.output.result(page, TextTable(("lines of", run), [("", line) for line in page.lines]))


def lakes(context: Context) -> None:
    """List all lakes of the configuration: last plan, last run, waste and health.

    Waste is what the newest plan would delete. Health is how the newest run ended.
    """
    from lakesweep.operations.lakes.lakes import list_lakes

    found = context.call(list_lakes)
    context.output.result(found, _table(found.lakes))
    if not context.is_remote and context.config_search.path is None:
        places = context.config_search.places
        context.output.say(f"no configuration was found: looked for {places}")
    context.output.say(format_count(len(found.lakes), "lake"))


def _table(lines: tuple[LakeLine, ...]) -> TextTable:
    numbers = frozenset({"waste", "files"})
    return TextTable(_COLUMNS, [_row(line) for line in lines], numbers=numbers)


def _row(line: LakeLine) -> tuple[str, ...]:
    plan, run = line.last_plan, line.last_run
    size = plan.waste_bytes if plan else None
    count = plan.waste_files if plan else None
    return (
        line.lake,
        line.health,
        "-" if size is None else format_size(size),
        "-" if count is None else f"{count:,}",
        _time(plan.created) if plan else "-",
        f"{run.kind} {_time(run.started)}" if run else "-",
    )


def _time(moment: datetime) -> str:
    return format_moment(moment.replace(second=0, microsecond=0))
