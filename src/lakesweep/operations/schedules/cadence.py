"""How often a schedule with `every = "auto"` is due: by what the last plans found.

Plans that find much make the interval half as long, plans that find little make it twice as long,
between the two bounds of the schedule. The reason is kept with the interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakesweep.app import App
from lakesweep.operations.schedules.jobs import targets_of
from lakesweep.runs.job_records import ScheduleState
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from lakesweep.runs.run_figures import run_totals
from lakesweep.runs.schedule_book import Cadence, NewInterval
from lakesweep.runs.schedules import Schedule
from lakesweep.units import format_duration

#: Shares of the files of a lake that a plan would delete.
_MUCH = 0.02
_LITTLE = 0.002


def cadence_in(app: App) -> Cadence:
    """Decides by the newest plan of each lake of a schedule."""

    def decide(schedule: Schedule, state: ScheduleState) -> NewInterval | None:
        if schedule.adaptive is None:
            return None
        return next_interval(
            schedule.adaptive,
            state.interval,
            *_found(app, targets_of(schedule, list(app.config.lakes))),
        )

    return decide


def next_interval(
    bounds: tuple[int, int], before: int | None, found: int, files: int
) -> NewInterval:
    """The interval after plans that would delete `found` of so many files."""
    shortest, longest = bounds
    now = min(max(before or shortest, shortest), longest)
    if not files:
        return NewInterval(now, "no plan has been made yet")
    share = found / files
    what = f"the last plan would delete {100 * share:.2g} % of {files:,} files"
    if share >= _MUCH:
        return _changed(max(now // 2, shortest), now, f"{what}, which is much", "shortest")
    if share <= _LITTLE:
        return _changed(min(now * 2, longest), now, f"{what}, which is little", "longest")
    return NewInterval(now, f"{what}: as before")


def _changed(seconds: int, before: int, what: str, bound: str) -> NewInterval:
    if seconds == before:
        return NewInterval(seconds, f"{what}: {bound} = {format_duration(_span(seconds))}")
    word = "sooner" if seconds < before else "later"
    return NewInterval(seconds, f"{what}: {word} than after {format_duration(_span(before))}")


def _span(seconds: int) -> timedelta:
    return timedelta(seconds=seconds)


def _found(app: App, lakes: list[str]) -> tuple[int, int]:
    """How many files the newest plans of some lakes would delete, and of how many."""
    found = [run_totals(plan.figures) for lake in lakes for plan in _newest_plan(app, lake)]
    deletes = sum(each.delete_files or 0 for each in found)
    return deletes, deletes + sum(each.keep_files or 0 for each in found)


def _newest_plan(app: App, lake: str) -> Iterator[RunRecord]:
    wanted = (RunStatus.DONE, RunStatus.INCOMPLETE)
    for run in app.known_runs.list(lake):
        if run.kind is RunKind.PLAN and run.status in wanted:
            yield run
            return
