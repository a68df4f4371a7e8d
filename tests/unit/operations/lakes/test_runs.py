"""Runs as operations show them."""

from __future__ import annotations

import msgspec

from lakesweep.operations.lakes.runs import RunView, StopRequested
from lakesweep.runs.records import RunKind, RunRecord
from lakesweep.timestamps import micros
from tests.moments import NOON


def test_a_stopped_run_is_stopping() -> None:
    stopped = StopRequested("apply-1")
    assert stopped.stopping
    assert msgspec.json.encode(stopped) == b'{"run":"apply-1","stopping":true}'


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
