"""`lakesweep runs`: list runs newest first, show one, or stop one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.run_lines import MaintenanceLine, RunLine
from lakesweep.errors import UsageError
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.runs.records import RunRecord

_STOP = "stop"


def runs(
    context: Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN | stop RUN]",
            help="Show this run in full, or have it stop.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="LAKE", help="Only runs of this lake.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="No more than so many.")] = 20,
) -> None:
    """What happened: plans, applies, checks, maintenance, newest first; or one run in full.

    stop RUN has a run that deletes end before its next batch. What it deleted stays deleted; apply
    with the same plan goes on with the rest.
    """
    match words or []:
        case []:
            _list(context, lake, limit)
        case [run] if run != _STOP:
            _show(context, run)
        case [word, run] if word == _STOP:
            _stop(context, context.app.runs.get(run))
        case _:
            raise UsageError("name one run, or stop and a run", hint="lakesweep runs --help")


def _list(context: Context, lake: str | None, limit: int) -> None:
    swept = map(RunLine.of, context.app.runs.list(lake))
    others = (each.run_line() for each in _maintenance(context)) if lake is None else ()
    lines = list(islice(merge(swept, others, key=_start, reverse=True), limit))
    context.output.lines(lines)
    context.output.say(f"{format_count(len(lines), 'run')}, newest first")


def _show(context: Context, run: str) -> None:
    maintained = next((each for each in _maintenance(context) if each.info.run == run), None)
    if maintained is None:
        line = RunLine.of(context.app.runs.get(run))
        context.output.result(_fields(line), line.table())
        return
    summary = maintained.run_line().table()
    context.output.result(maintained.info, summary, maintained.table())


def _maintenance(context: Context) -> Iterator[MaintenanceLine]:
    from lakesweep.operations.store import MaintenanceView

    context.app.prepare_store()
    runs = context.app.maintenance_runs.list()
    return (MaintenanceLine(MaintenanceView.of(run)) for run in runs)


def _start(line: RunLine) -> datetime:
    return line.started


def _fields(line: RunLine) -> dict[str, object]:
    from dataclasses import fields

    return {field.name: getattr(line, field.name) for field in fields(line)}


def _stop(context: Context, record: RunRecord) -> None:
    from lakesweep.runs.fencing import request_stop
    from lakesweep.runs.records import RunKind, RunStatus
    from lakesweep.runs.run_names import run_folder

    if record.status is not RunStatus.RUNNING:
        raise UsageError(
            f"{record.run} does not run: it is {record.status}", hint=f"lakesweep runs {record.run}"
        )
    if record.kind is not RunKind.APPLY or record.plan is None:
        raise UsageError(
            f"{record.run} deletes nothing, and need not be stopped",
            hint="end its process; its lease ends by itself",
        )
    plan = context.app.runs.plan(record.plan)
    request_stop(context.app.stores, run_folder(plan.address, record.run))
    context.output.result({"run": record.run, "stopping": True})
    context.output.say(f"{record.run} ends before its next batch")
    context.output.say(f"try: lakesweep runs {record.run}")
