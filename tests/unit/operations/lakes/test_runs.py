"""Runs as operations show them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import micros
from lakesweep.errors import UsageError
from lakesweep.operations.lakes.runs import RunFilter, RunView
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from tests.moments import NOON


def test_a_plan_run_names_the_plan_it_made() -> None:
    record = RunRecord(
        run="plan-1",
        lake="prod",
        kind=RunKind.PLAN,
        started_at=micros(NOON),
        figures={"plan": "plan-1"},
    )
    view = RunView.of(record)
    assert (view.plan, view.kind, view.finished) == ("plan-1", "plan", None)


def run(name: str, status: RunStatus, minutes: int) -> RunView:
    started = micros(NOON + timedelta(minutes=minutes))
    return RunView.of(
        RunRecord(run=name, lake="prod", kind=RunKind.APPLY, started_at=started, status=status)
    )


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (RunFilter(), ["early", "late"]),
        (RunFilter(status="failed"), ["early"]),
        (RunFilter(since=NOON + timedelta(minutes=5)), ["late"]),
        (RunFilter(status="failed", since=NOON + timedelta(minutes=5)), []),
    ],
)
def test_runs_are_filtered_by_status_and_start(wanted: RunFilter, names: list[str]) -> None:
    runs = [run("early", RunStatus.FAILED, 0), run("late", RunStatus.DONE, 5)]
    assert [each.run for each in runs if wanted.accepts(each)] == names


def test_a_status_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no status 'odd'"):
        RunFilter(status="odd")
