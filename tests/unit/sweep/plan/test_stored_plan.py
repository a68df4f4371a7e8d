"""Plans as they lie in the store."""

from __future__ import annotations

import pytest

from lakesweep.clock import ManualClock
from lakesweep.config import LakeSection
from lakesweep.errors import DamagedError, NotFoundError
from lakesweep.sweep.plan.stored_plan import PlanState, open_plan
from lakesweep.sweep.verdicts import Verdict
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk, in_a_month, rows_of

_DAY = 24 * 60 * 60


@pytest.fixture
def clock() -> ManualClock:
    return in_a_month()


@pytest.fixture
def desk(clock: ManualClock) -> Desk:
    bucket = Bucket()
    pointers = {}
    for name in ("one", "two"):
        table = Table(bucket, name)
        table.snapshot(table.manifest("m0.avro", table.data("a.parquet")))
        pointers[name] = table.commit()
        bucket.write(table.path("data/orphan.parquet"), b"")
    return Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [Names(pointers)], clock)


def test_what_goes_comes_first(desk: Desk) -> None:
    verdicts = [row["verdict"] for row in rows_of(desk.plan())]
    assert verdicts == sorted(verdicts)
    assert set(verdicts) == {"delete", "keep"}


def test_rows_are_chosen_by_verdict_reason_and_table(desk: Desk) -> None:
    plan = desk.plan()
    goes = rows_of(plan, verdict=Verdict.DELETE, table="two")
    assert [row["path"] for row in goes] == [f"{BUCKET}/two/data/orphan.parquet"]
    stays = rows_of(plan, reason="referenced", table="one")
    assert {row["table"] for row in stays} == {"one"}
    assert len(stays) == 3


def test_a_plan_expires(desk: Desk, clock: ManualClock) -> None:
    plan = desk.plan()
    assert plan.state(clock.now()) is PlanState.READY
    clock.sleep(_DAY)
    assert plan.state(clock.now()) is PlanState.EXPIRED


def test_a_plan_that_was_applied_does_not_expire(desk: Desk, clock: ManualClock) -> None:
    plan = desk.plan()
    desk.runs.close_plan(desk.runs.claim(plan.document.plan, "run-1", resumes=None))
    clock.sleep(2 * _DAY)
    again = open_plan(desk.stores, desk.runs, plan.document.plan)
    assert again.state(clock.now()) is PlanState.APPLIED


def test_the_name_of_a_lake_means_its_newest_plan(desk: Desk, clock: ManualClock) -> None:
    desk.plan()
    clock.sleep(1)
    newest = desk.plan().document.plan
    assert open_plan(desk.stores, desk.runs, "prod").document.plan == newest


def test_of_plans_of_one_second_the_last_is_the_newest(desk: Desk) -> None:
    for _ in range(6):
        newest = desk.plan().document.plan
        assert open_plan(desk.stores, desk.runs, "prod").document.plan == newest


def test_other_names_are_not_found(desk: Desk) -> None:
    desk.plan()
    with pytest.raises(NotFoundError, match="there is no plan pro"):
        open_plan(desk.stores, desk.runs, "pro")


def test_a_plan_that_was_changed_is_not_shown(desk: Desk) -> None:
    plan = desk.plan()
    bucket, _, key = plan.record.address.removeprefix("memory://").partition("/")
    desk.stores.open(f"memory://{bucket}/").write(f"{key}/plan.json", b"{}")
    with pytest.raises(DamagedError, match="not the plan that was made"):
        open_plan(desk.stores, desk.runs, plan.document.plan)
