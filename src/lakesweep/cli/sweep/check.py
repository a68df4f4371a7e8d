"""`lakesweep check`: find dangling references, files that are referenced but not stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import IncompleteError, MissingFilesError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.check import BrokenTable, CheckedLake, CheckLakeResult

_SHOWN_TABLES = 100


def check(
    context: Context,
    engine: EngineChoice,
    lake: Annotated[
        str | None,
        typer.Argument(metavar="[LAKE]", help="A lake of the configuration.", show_default=False),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="PLAN",
            help="Use the listing and the marks of this plan.",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="List every missing file, one per line.")
    ] = False,
) -> None:
    """Find files that tables reference but that are not stored. Deletes nothing.

    The lake is listed and marked as for a plan. Files that were not listed are looked up again, and
    tables that changed meanwhile are marked again, so concurrent writers cause no false alarms.
    Ends with code 7 if a file is missing, otherwise with 4 if something could not be read.
    """
    from lakesweep.cli.render.rows import MissingRows
    from lakesweep.operations.lakes.check import CheckLakeRequest, check_lake

    request = CheckLakeRequest(lake, plan, engine.engine, files)
    with context.call(check_lake, request, context.io) as checked:
        if files:
            context.output.rows(checked.missing, MissingRows())
        else:
            context.output.result(checked.result, *_tables(checked.result))
            _sum_up(context, checked)
    if checked.result.missing:
        raise typer.Exit(MissingFilesError.exit_code)
    if not checked.result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)


def _tables(result: CheckLakeResult) -> Iterator[TextTable]:
    numbers = frozenset({"missing", "size"})
    if result.tables:
        rows = [_row(each) for each in result.tables[:_SHOWN_TABLES]]
        yield TextTable(("table", "missing", "size", "kinds"), rows, numbers=numbers)
        files = [(each.path, each.kind or "", each.table) for each in result.files]
        yield TextTable(("missing file", "kind", "needed by"), files)
    if result.incomplete_roots:
        pairs = [(root.name, root.reason) for root in result.incomplete_roots]
        yield TextTable(("incomplete root", "why"), pairs)
    if result.refusals:
        refused = [(each.path, each.reason) for each in result.refusals]
        yield TextTable(("could not be looked up", "why"), refused)


def _row(each: BrokenTable) -> tuple[str, str, str, str]:
    kinds = ", ".join(f"{files:,} {kind}" for kind, files in each.kinds.items())
    return each.table, f"{each.files:,}", format_size(each.bytes), kinds


def _sum_up(context: Context, checked: CheckedLake) -> None:
    result = checked.result
    if result.missing:
        tables = format_count(len(result.tables), "table")
        context.output.say(f"{format_count(result.missing, 'file')} missing, of {tables}")
        context.output.say(f"try: lakesweep check {result.lake} --files")
    elif result.is_complete:
        names = format_count(checked.references, "reference")
        roots = format_count(checked.roots, "root")
        context.output.say(f"nothing is missing: {names} of {roots} lead to stored files")
    if result.refused:
        context.output.say(f"{format_count(result.refused, 'file')} could not be looked up")
    if result.outside:
        outside = format_count(result.outside, "file")
        context.output.say(f"not checked: {outside} outside of the lake's locations")
