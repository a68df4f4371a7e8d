from __future__ import annotations

from lakesweep.cli.render.run_lines import run_table, run_text
from lakesweep.clock import micros
from lakesweep.operations.lakes.runs import RunView
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from tests.moments import NOON

RUNNING = RunRecord(run="apply-1", lake="prod", kind=RunKind.APPLY, started_at=micros(NOON))
DONE = RunRecord(
    run="plan-1",
    lake="prod",
    kind=RunKind.PLAN,
    started_at=micros(NOON),
    finished_at=micros(NOON) + 1_500_000,
    status=RunStatus.INCOMPLETE,
    message="1 root could not be read",
    spec={"inventory": None, "overridden": ["grace", "share"]},
    figures={"plan": "plan-1", "listed": 1200, "seconds": {"list": 0.5}},
)


def test_a_run_that_ended_says_how_and_when() -> None:
    line = RunView.of(DONE)
    assert line.seconds == 1.5
    assert line.plan == "plan-1"
    for word in ("plan-1", "incomplete", "1.5 s", "prod", "1 root could not be read"):
        assert word in run_text(line)


def test_a_run_under_way_has_no_end() -> None:
    line = RunView.of(RUNNING)
    assert (line.finished, line.seconds, line.plan) == (None, None, None)
    assert "running" in run_text(line)


def test_all_figures_are_shown_one_a_row() -> None:
    rows = {row[0]: row[1] for row in run_table(RunView.of(DONE)).rows}
    assert rows["found listed"] == "1,200"
    assert rows["found seconds list"] == "0.5"
    assert rows["asked for overridden"] == "grace, share"
    assert "asked for inventory" not in rows
