"""`lakesweep scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import IncompleteError
from lakesweep.units import parse_size

if TYPE_CHECKING:
    from lakesweep.upkeep.scan.scan_result import ScanResult


def scan(
    context: Context,
    lake: Annotated[
        str | None, typer.Argument(metavar="LAKE", help="A lake.", show_default=False)
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", metavar="NAME", help="Scan this catalog.", show_default=False),
    ] = None,
    small_file_size: Annotated[
        str,
        typer.Option(
            "--small-file-size", metavar="SIZE", help="Data files below this count as small."
        ),
    ] = "32MiB",
    html: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write a page with charts to this file or address; - is standard output.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what the tables of a lake or a catalog hold, share, lack and could free.

    Reads metadata only, and changes nothing: snapshots and refs, sizes of metadata, small files,
    delete files, bytes that only old snapshots hold, folders that tables share, snapshots that are
    overdue by the table's own rules, missing statistics. The table that could free the most comes
    first. A table that cannot be read is shown with the reason, and the exit code is 4.
    """
    from lakesweep.cli.render.scan_tables import scan_tables_for_people
    from lakesweep.operations.tables.scan import ScanRequest, scan_page, scan_tables

    request = ScanRequest(lake, catalog, parse_size(small_file_size))
    result = scan_tables(context.app, request, context.io)
    if html is None:
        context.output.result(result, *scan_tables_for_people(result))
    else:
        context.write_page(html, scan_page(result), {"subject": result.subject})
    _say(context, result)


def _say(context: Context, result: ScanResult) -> None:
    from lakesweep.cli.render.scan_tables import summary_lines

    for line in summary_lines(result):
        context.output.say(line)
    if not result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)
