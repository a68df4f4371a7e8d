from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from lakesweep.clock import ManualClock, micros
from lakesweep.errors import NotFoundError, RefusedError
from lakesweep.runs.records import TYPES, PlanRecord, PlanStatus, RootMemory, RunKind, RunStatus
from lakesweep.runs.run_log import MOST_FOLDERS, RunLog
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def runs(clock: ManualClock) -> Iterator[RunLog]:
    with Store(MemoryBackend(), types=TYPES, clock=clock) as store:
        yield RunLog(store.create_realm("acme"), clock)


def test_runs_of_all_lakes_come_newest_first(runs: RunLog, clock: ManualClock) -> None:
    made = []
    for lake in ("b", "a", "c", "b"):
        made.append(runs.begin(lake, RunKind.PLAN, spec={}).run)
        clock.sleep(1)
    assert [record.run for record in runs.list()] == made[::-1]


def test_the_newest_plan_is_that_of_the_lake(runs: RunLog) -> None:
    for name in ("plan-1", "plan-2"):
        _plan(runs, name)
    other = msgspec.structs.replace(_plan(runs, "plan-3"), lake="other")
    runs.add_plan(other)
    assert runs.newest_plan("prod").plan == "plan-2"
    with pytest.raises(NotFoundError, match="lake test has no plan"):
        runs.newest_plan("test")


def test_a_beginning_that_only_one_plan_has_is_enough(runs: RunLog) -> None:
    for name in ("plan-1", "plan-11", "plan-20"):
        _plan(runs, name)
    assert runs.plan("plan-2").plan == "plan-20"
    assert runs.plan("plan-1").plan == "plan-1"
    with pytest.raises(NotFoundError, match="several plans begin with plan: plan-1, plan-11"):
        runs.plan("plan")
    with pytest.raises(NotFoundError, match="there is no plan "):
        runs.plan("")


def _plan(runs: RunLog, name: str = "plan-1") -> PlanRecord:
    now = micros(runs.clock.now())
    plan = PlanRecord(
        plan=name, lake="prod", address="/plans/1", sha256="00", created_at=now, expires_at=now + 1
    )
    runs.add_plan(plan)
    return plan


def test_nothing_is_known_at_first(runs: RunLog) -> None:
    assert list(runs.list()) == []
    with pytest.raises(NotFoundError, match="no run r1"):
        runs.get("r1")
    with pytest.raises(NotFoundError, match="no plan p1"):
        runs.plan("p1")


def test_runs_come_newest_first_with_how_they_ended(runs: RunLog, clock: ManualClock) -> None:
    first = runs.begin("prod", RunKind.PLAN, spec={"mode": "exact"})
    clock.sleep(60)
    second = runs.begin("prod", RunKind.APPLY, plan="plan-1", spec={})
    runs.begin("other", RunKind.PLAN, spec={})
    runs.finish(first, RunStatus.DONE, {"listed": 7}, "all well")
    assert [run.run for run in runs.list("prod")] == [second.run, first.run]
    ended = runs.get(first.run)
    assert (ended.status, ended.figures, ended.message) == (
        RunStatus.DONE,
        {"listed": 7},
        "all well",
    )
    assert ended.finished_at == ended.started_at + 60_000_000


def test_a_lake_is_no_beginning_of_another(runs: RunLog) -> None:
    runs.begin("prod", RunKind.PLAN, spec={})
    runs.begin("prod2", RunKind.PLAN, spec={})
    assert [run.lake for run in runs.list("prod")] == ["prod"]


def test_a_plan_is_applied_once(runs: RunLog) -> None:
    plan = _plan(runs)
    taken = runs.claim("plan-1", "apply-1", resumes=None)
    assert (taken.status, taken.run) == (PlanStatus.APPLYING, "apply-1")
    with pytest.raises(RefusedError, match="is being applied by apply-1"):
        runs.claim("plan-1", "apply-2", resumes=None)
    runs.close_plan(taken)
    with pytest.raises(RefusedError, match="applied once"):
        runs.claim("plan-1", "apply-2", resumes="apply-1")
    assert runs.plan("plan-1") == msgspec.structs.replace(
        plan, status=PlanStatus.APPLIED, run="apply-1"
    )


def test_a_plan_is_taken_over_from_the_run_that_is_named(runs: RunLog) -> None:
    _plan(runs)
    runs.claim("plan-1", "apply-1", resumes=None)
    assert runs.claim("plan-1", "apply-2", resumes="apply-1").run == "apply-2"


def test_what_is_learned_of_a_lake_stays(runs: RunLog) -> None:
    lease = runs.lake("prod").lease
    runs.learn("prod", lambda lake: msgspec.structs.replace(lake, most_live=5))
    runs.learn("prod", lambda lake: msgspec.structs.replace(lake, live=3))
    lake = runs.lake("prod")
    assert (lake.lease, lake.most_live, lake.live) == (lease, 5, 3)
    assert runs.lake("other").lease != lease


def test_folders_of_a_root_are_never_forgotten(runs: RunLog, clock: ManualClock) -> None:
    for folder in ("s3://lake/a", "s3://lake/b"):
        memory = RootMemory(folders=(folder,), seen_at=micros(clock.now()))
        runs.learn("prod", lambda lake: lake, {"shop.orders": memory})
        clock.sleep(timedelta(days=1).total_seconds())
    known = runs.known_folders(runs.lake("prod"))
    assert set(known["shop.orders"].folders) == {"s3://lake/a", "s3://lake/b"}


def test_too_many_folders_become_whole_buckets(runs: RunLog) -> None:
    folders = tuple(f"s3://lake/{number}" for number in range(MOST_FOLDERS))
    runs.learn("prod", lambda lake: lake, {"t": RootMemory(folders=folders, seen_at=1)})
    more = RootMemory(folders=("s3://other/x",), seen_at=2)
    runs.learn("prod", lambda lake: lake, {"t": more})
    known = runs.known_folders(runs.lake("prod"))
    assert set(known["t"].folders) == {"s3://lake/", "s3://other/"}
