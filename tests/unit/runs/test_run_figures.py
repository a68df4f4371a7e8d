from __future__ import annotations

from lakesweep.runs.run_figures import (
    CheckRunFigures,
    PlanRunFigures,
    check_figures,
    recorded_figures,
    run_totals,
)
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals

_PLAN = PlanRunFigures(
    plan="plan-1", delete_files=3, delete_bytes=30, keep_files=5, keep_bytes=50, seconds={"mark": 1}
)


def test_a_plan_records_the_keys_that_are_stored_in_their_order() -> None:
    names = ["plan", "delete_files", "delete_bytes", "keep_files", "keep_bytes", "seconds"]
    assert list(recorded_figures(_PLAN, engine="local")) == [*names, "engine"]


def test_failures_are_left_to_the_outcomes_unless_there_are_none() -> None:
    totals = OutcomeTotals()
    totals.fail("s3://lake/a", "denied")
    assert "failures" not in recorded_figures(totals.report())
    assert recorded_figures(totals.report(), with_lists=True)["failures"] == [
        {"path": "s3://lake/a", "reason": "denied"}
    ]


def test_figures_of_any_kind_and_version_can_be_read() -> None:
    found = run_totals(recorded_figures(_PLAN) | {"a_key_of_tomorrow": [1]})
    assert (found.delete_files, found.missing) == (3, None)
    assert run_totals({}).plan is None


def test_a_check_reads_back_what_it_recorded() -> None:
    counted = CheckRunFigures(
        missing=1, tables_broken=1, outside=0, roots=4, roots_incomplete=1, names=9, refused=0
    )
    assert check_figures(recorded_figures(counted) | {"load": {}}) == counted
