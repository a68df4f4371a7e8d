"""Render a scan as one HTML page with charts, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakesweep.sweep.inspect.charts import (
    Bar,
    bars_table,
    grid,
    render_page,
    safe_name,
    safe_text,
    section,
    tile,
)
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_count, format_size
from lakesweep.upkeep.scan.scan_result import ScanResult
from lakesweep.upkeep.scan.table_figures import TableFigures

_SHOWN_TABLES = 20
_KEEP = Verdict.KEEP.value


def render_scan(result: ScanResult) -> str:
    """The page of a scan."""
    return render_page(f"Lakesweep: scan of {result.subject}", _body(result))


def _body(result: ScanResult) -> Iterator[str]:
    yield _header(result)
    yield section("What upkeep could free", bars_table(_bars(result, _free, _free_note)))
    yield section("Findings", bars_table(_findings(result)))
    small = f"Data files below {format_size(result.small_bytes)}"
    yield section(small, bars_table(_bars(result, _small, _small_note)))
    yield section("Snapshots", bars_table(_bars(result, _snapshots, _snapshots_note)))
    yield section("Metadata files", bars_table(_bars(result, _metadata, _metadata_note)))
    yield _shared(result)
    yield _problems(result)
    yield section("All tables", grid(_COLUMNS, [_row(each) for each in result.tables]))


def _header(result: ScanResult) -> str:
    totals = result.totals
    tiles = (
        tile(format_size(totals.free_bytes), "could be freed", Verdict.DELETE.value),
        tile(format_size(totals.data_bytes), "in current data files", _KEEP),
        tile(f"{totals.tables:,}", f"tables, {totals.unreadable:,} of them unreadable"),
    )
    return (
        f"<header><h1>{safe_name(result.subject)}</h1>"
        f"<p>scanned {safe_text(f'{result.scanned:%Y-%m-%d %H:%M} UTC')}, metadata only</p>"
        f'</header>\n<div class="tiles">{"".join(tiles)}</div>'
    )


def _bars(
    result: ScanResult,
    value: Callable[[TableFigures], int],
    note: Callable[[TableFigures], str],
) -> Iterator[Bar]:
    """The tables with the largest values, and the rest as one."""
    found = sorted((each for each in result.tables if value(each)), key=value, reverse=True)
    for each in found[:_SHOWN_TABLES]:
        yield Bar(each.table, value(each), note(each))
    rest = found[_SHOWN_TABLES:]
    if rest:
        yield Bar(f"and {len(rest):,} more", sum(map(value, rest)), "", _KEEP)


def _free(each: TableFigures) -> int:
    return each.free_bytes


def _free_note(each: TableFigures) -> str:
    data = each.data_bytes or 0
    share = 100 * each.free_bytes / max(1, each.free_bytes + data)
    files = "" if each.old_files is None else f", {format_count(each.old_files, 'file')}"
    return f"{format_size(each.free_bytes)}{files}; {share:.0f} % of its bytes"


def _small(each: TableFigures) -> int:
    return each.small_files or 0


def _small_note(each: TableFigures) -> str:
    return f"{each.small_files or 0:,} of {format_count(each.data_files or 0, 'file')}"


def _snapshots(each: TableFigures) -> int:
    return each.snapshots or 0


def _snapshots_note(each: TableFigures) -> str:
    return f"{each.snapshots or 0:,}, {each.overdue_snapshots or 0:,} overdue"


def _metadata(each: TableFigures) -> int:
    return each.metadata_bytes or 0


def _metadata_note(each: TableFigures) -> str:
    return f"{format_size(each.metadata_bytes or 0)}, {each.metadata_log or 0:,} older versions"


def _findings(result: ScanResult) -> Iterator[Bar]:
    for finding, tables in result.totals.findings.items():
        yield Bar(finding, tables, format_count(tables, "table"))


def _shared(result: ScanResult) -> str:
    if not result.shared_folders:
        return ""
    rows = [
        (each.folder, ", ".join(each.tables), each.inside or "") for each in result.shared_folders
    ]
    return section("Folders that tables share", grid(("folder", "used by", "inside"), rows))


def _problems(result: ScanResult) -> str:
    rows = [(each.table, each.reason) for each in result.tables if each.reason is not None]
    rows += [("", each) for each in result.problems]
    return section("Could not be read", grid(("table", "why"), rows)) if rows else ""


_COLUMNS = ("table", "could free", "snapshots", "data files", "small", "delete files", "findings")


def _row(each: TableFigures) -> tuple[str, ...]:
    return (
        each.table,
        format_size(each.free_bytes),
        *(
            "-" if value is None else f"{value:,}"
            for value in (each.snapshots, each.data_files, each.small_files, each.delete_files)
        ),
        ", ".join(each.findings),
    )
