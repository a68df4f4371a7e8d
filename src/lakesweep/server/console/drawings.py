"""Drawings of the console: the grid of runs, the stages of a run, the history of a table.

They are tables and SVG, made here. Everything from outside is escaped where it enters; colours come
from classes, since the pages allow no styles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakesweep.operations.lakes.live_runs import StageView
from lakesweep.operations.lakes.run_grid import GridRow, RunGrid
from lakesweep.operations.upkeep.table_history import RefPoint, SnapshotPoint, TableTimeline
from lakesweep.server.console.view import encoded
from lakesweep.sweep.inspect.charts import safe_name, safe_text
from lakesweep.units import format_count

_ROW, _LABEL, _WIDTH = 26, 150, 1000
#: At most so many snapshots and refs are drawn.
_MOST_POINTS, _MOST_NAMES = 300, 12


def run_grid_table(grid: RunGrid) -> str:
    """Lakes by days; a cell has the colour of the worst outcome of its day, and says it."""
    if not grid.rows:
        return '<p class="note">No run in these days.</p>'
    head = "".join(
        f'<th scope="col"><abbr title="{day:%Y-%m-%d}">{day.day}</abbr></th>' for day in grid.days
    )
    rows = "".join(_grid_row(row) for row in grid.rows)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Runs by lake and day">'
        f'<table class="grid"><tr><th scope="col">Lake</th>{head}</tr>{rows}</table></div>'
    )


def _grid_row(row: GridRow) -> str:
    link = f'<a href="/runs?lake={encoded(row.lake)}">{safe_name(row.subject)}</a>'
    cells = "".join(
        f'<td><span class="cell {each.worst or "none"}" title="{each.text}">'
        f'<span class="hidden">{each.text}</span></span></td>'
        for each in row.cells
    )
    return f'<tr><th scope="row">{link}</th>{cells}</tr>'


def stage_timeline(stages: Sequence[StageView]) -> str:
    """The stages one below the other, each as long as it took; one that runs is marked."""
    total = sum(each.seconds for each in stages)
    if not stages or not total:
        return ""
    height = _ROW * len(stages)
    bars = "".join(_stage_bars(stages, total))
    text = safe_text(", ".join(f"{each.stage} {each.seconds:.1f} s" for each in stages))
    return (
        f'<div class="wide"><svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{text}">{bars}</svg></div>'
    )


def _stage_bars(stages: Sequence[StageView], total: float) -> Iterator[str]:
    left, scale = 0.0, (_WIDTH - 2 * _LABEL) / total
    for number, each in enumerate(stages):
        width = max(2.0, each.seconds * scale)
        start, top = _LABEL + left, number * _ROW
        kind = "running" if each.running else "done"
        note = f"{each.seconds:.1f} s, {format_count(each.count, each.unit.removesuffix('s'))}"
        yield (
            f'<text x="0" y="{top + 17}" class="left">{safe_text(each.stage)}</text>'
            f'<rect class="stage {kind}" x="{start:.1f}" y="{top + 5}" rx="3" '
            f'width="{width:.1f}" height="16"/>'
            f'<text x="{min(start + width + 6, _WIDTH - _LABEL):.1f}" y="{top + 17}" '
            f'class="left soft">{safe_text(note)}</text>'
        )
        left += each.seconds * scale


def history_line(history: TableTimeline) -> str:
    """Snapshots on a line of time, those that would go in another colour, with refs above."""
    points = history.snapshots[-_MOST_POINTS:]
    if not points:
        return ""
    first, last = points[0].committed, points[-1].committed
    span = max(1e-3, (last - first).total_seconds())
    places = {
        each.snapshot: 40 + (_WIDTH - 80) * (each.committed - first).total_seconds() / span
        for each in points
    }
    refs = [each for each in history.refs if each.snapshot in places][:_MOST_NAMES]
    height = 60 + 18 * len(refs)
    marks = "".join(_mark(each, places[each.snapshot], height) for each in points)
    names = "".join(_name(each, places, number, height) for number, each in enumerate(refs))
    going = sum(each.expires for each in points)
    told = f"{len(points)} snapshots from {first:%Y-%m-%d} to {last:%Y-%m-%d}, {going} would go"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Line of time">'
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{safe_text(told)}"><line class="line" x1="20" x2="{_WIDTH - 20}" '
        f'y1="{height - 35}" y2="{height - 35}"/>{names}{marks}'
        f'<text class="left soft" x="20" y="{height - 6}">{first:%Y-%m-%d %H:%M} UTC</text>'
        f'<text class="right soft" x="{_WIDTH - 20}" y="{height - 6}">{last:%Y-%m-%d %H:%M} UTC'
        f"</text></svg></div>"
    )


def _mark(point: SnapshotPoint, place: float, height: int) -> str:
    kind = "snapshot goes" if point.expires else "snapshot"
    title = f"{point.snapshot}: {'; '.join(point.why)}"
    return (
        f'<circle class="{kind}" cx="{place:.1f}" cy="{height - 35}" r="6">'
        f"<title>{safe_text(title)}</title></circle>"
    )


def _name(ref: RefPoint, places: Mapping[int, float], number: int, height: int) -> str:
    place, top = places[ref.snapshot], 14 + 18 * number
    side, shift = ("right", -6) if place > _WIDTH / 2 else ("left", 6)
    return (
        f'<line class="ref" x1="{place:.1f}" x2="{place:.1f}" y1="{top}" y2="{height - 42}"/>'
        f'<text class="{side}" x="{place + shift:.1f}" y="{top}">'
        f"{safe_text(f'{ref.name[:60]} ({ref.type})')}</text>"
    )
