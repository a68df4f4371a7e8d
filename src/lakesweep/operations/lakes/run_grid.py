"""What became of the runs of each lake, day by day: one glance over some weeks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from itertools import islice

import msgspec

from lakesweep.app import App
from lakesweep.operations.lakes.runs import RunFilter, RunView, every_run
from lakesweep.runs.records import RunStatus

#: How many days are shown, and at most how many lakes and runs in them.
GRID_DAYS = 30
_MOST_LAKES = 50
_MOST_RUNS = 2_000
#: The outcomes, worst first: a cell shows the worst one of its day.
_WORST = (
    RunStatus.FAILED,
    RunStatus.DEAD,
    RunStatus.INCOMPLETE,
    RunStatus.REFUSED,
    RunStatus.CANCELLED,
    RunStatus.STOPPED,
    RunStatus.RUNNING,
    RunStatus.DONE,
)


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a lake on one day, by how they ended; `worst` is None on a day without runs."""

    day: date
    worst: str | None
    statuses: dict[str, int]

    @property
    def text(self) -> str:
        """The cell in words."""
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        return f"{self.day:%d %b}: {counts or 'no run'}"


class GridRow(msgspec.Struct, frozen=True):
    """A lake or table, and its days."""

    subject: str
    lake: str
    cells: tuple[GridCell, ...]


class RunGrid(msgspec.Struct, frozen=True, kw_only=True):
    """Lakes and days. `is_cut` if there were more runs than are looked at."""

    days: tuple[date, ...]
    rows: tuple[GridRow, ...]
    is_cut: bool = False


def run_grid(app: App, days: int = GRID_DAYS) -> RunGrid:
    """The outcomes of the last days, the lakes with the newest runs first."""
    today = app.clock.now().date()
    shown = tuple(today - timedelta(days=number) for number in reversed(range(days)))
    since = app.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    wanted = RunFilter(since=since - timedelta(days=days - 1))
    runs = list(islice(every_run(app, wanted), _MOST_RUNS + 1))
    return RunGrid(
        days=shown,
        rows=tuple(islice(_rows(runs[:_MOST_RUNS], shown), _MOST_LAKES)),
        is_cut=len(runs) > _MOST_RUNS,
    )


def _rows(runs: Iterable[RunView], days: tuple[date, ...]) -> Iterable[GridRow]:
    found: dict[tuple[str, str], dict[date, Counter[str]]] = {}
    for run in runs:
        by_day = found.setdefault((run.subject, run.lake), {})
        by_day.setdefault(run.started.date(), Counter())[run.status] += 1
    for (subject, lake), by_day in found.items():
        cells = (_cell(day, by_day.get(day, Counter())) for day in days)
        yield GridRow(subject, lake, tuple(cells))


def _cell(day: date, statuses: Counter[str]) -> GridCell:
    known = {each.value: statuses[each.value] for each in _WORST if statuses[each.value]}
    return GridCell(day=day, worst=next(iter(known), None), statuses=known)
