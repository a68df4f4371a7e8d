"""A scan, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_size
from lakesweep.upkeep.scan.table_figures import TableFinding

if TYPE_CHECKING:
    from lakesweep.upkeep.scan.scan_result import ScanResult
    from lakesweep.upkeep.scan.table_figures import TableFigures

_COLUMNS = ("table", "could free", "snapshots", "findings")
_NUMBERS = frozenset({"could free", "snapshots"})


def scan_tables_for_people(result: ScanResult) -> Iterator[TextTable]:
    """All tables, and the folders that they share."""
    yield TextTable(_COLUMNS, [_row(each) for each in result.tables], numbers=_NUMBERS)
    if result.shared_folders:
        rows = [(each.folder, ", ".join(each.tables)) for each in result.shared_folders]
        yield TextTable(("shared folder", "used by"), rows)


def _row(each: TableFigures) -> tuple[str, ...]:
    return (
        each.table,
        "-" if each.old_bytes is None else format_size(each.free_bytes),
        "-" if each.snapshots is None else f"{each.snapshots:,}",
        ", ".join(_words(each, finding) for finding in each.findings),
    )


def _words(each: TableFigures, finding: TableFinding) -> str:
    """A finding with its figure."""
    match finding:
        case TableFinding.OVERDUE:
            return f"{each.overdue_snapshots or 0:,} overdue"
        case TableFinding.SMALL_FILES:
            return format_count(each.small_files or 0, "small file")
        case TableFinding.DELETE_FILES:
            return format_count(each.delete_files or 0, "delete file")
        case TableFinding.DANGLING:
            return f"{each.dangling_deletes or 0:,} dangling"
        case _:
            return finding.value


def summary_lines(result: ScanResult) -> Iterator[str]:
    """What could not be read, and the sums."""
    yield from result.problems
    for each in result.tables:
        if each.reason is not None:
            yield f"{each.table}: {each.reason}"
    totals = result.totals
    yield (
        f"{format_count(totals.tables, 'table')} with {format_size(totals.data_bytes)} of current"
        f" data; upkeep could free {format_size(totals.free_bytes)}"
    )
