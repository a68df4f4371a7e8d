"""`lakesweep lakes`: all lakes with their last plan, last run, waste and health."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.cli.context import Context
from lakesweep.units import format_count, format_moment, format_size

if TYPE_CHECKING:
    from lakesweep.cli.render.output import TextTable
    from lakesweep.operations.lakes.lakes import LakeLine

_COLUMNS = ("lake", "health", "waste", "files", "planned", "last run")


def lakes(context: Context) -> None:
    """List all lakes of the configuration: last plan, last run, waste and health.

    Waste is what the newest plan would delete. Health is how the newest run ended.
    """
    from lakesweep.operations.lakes.lakes import list_lakes

    found = list_lakes(context.app)
    context.output.result(found, _table(found.lakes))
    search = context.config_search
    if search.path is None:
        context.output.say(f"no configuration was found: looked for {search.places}")
    context.output.say(format_count(len(found.lakes), "lake"))


def _table(lines: tuple[LakeLine, ...]) -> TextTable:
    from lakesweep.cli.render.output import TextTable

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
