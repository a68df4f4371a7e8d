"""Drawings of the console: the grid of runs, and the stages of a run on a line of time.

They are tables and SVG, made here. Everything from outside is escaped where it enters; colours come
from classes, since the pages allow no styles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakesweep.operations.lakes.live_runs import StageView
from lakesweep.operations.lakes.run_grid import GridRow, RunGrid
from lakesweep.server.console.view import encoded
from lakesweep.sweep.inspect.charts import safe_name, safe_text
from lakesweep.units import format_count

_ROW, _LABEL, _WIDTH = 26, 150, 1000


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
