"""Show how a purge or a tolerant read ended; exit with code 4 if it was incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from lakesweep.cli.render.outcome_tables import dry_run_hint, failure_lines, outcome_table
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.marks.unreadable import Problem
    from lakesweep.operations.tables.files import PurgeResult
    from lakesweep.storage.deleting.outcome_totals import FailedFile


def show_purge(context: Context, result: PurgeResult) -> None:
    """Write the result; exit with code 4 if something was left behind."""
    figures: dict[str, int | str] = {
        "found": result.found,
        "deleted": result.deleted,
        "absent": result.absent,
        "failed": result.failed,
        "freed": format_size(result.bytes_deleted),
    }
    context.output.result(result, *([] if result.dry_run else [outcome_table(figures)]))
    say_failures(context, result.failures, result.failures_omitted)
    if not result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)
    if result.dry_run and result.found:
        context.output.say(dry_run_hint())


def protected_text(files: int) -> str:
    """How many files a purge keeps, and why."""
    return f"{format_count(files, 'file')} kept: referenced by a root, or protected"


def say_failures(context: Context, failures: Sequence[FailedFile], omitted: int = 0) -> None:
    """Name the first failures."""
    for line in failure_lines(failures, omitted):
        context.output.say(line)


def say_problems(context: Context, problems: Sequence[Problem]) -> None:
    """Name what could not be read; exit with code 4 if there was anything."""
    for problem in dict.fromkeys(problems):
        context.output.say(str(problem))
    if problems:
        raise typer.Exit(IncompleteError.exit_code)
