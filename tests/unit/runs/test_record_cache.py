from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lakesweep.clock import ManualClock
from lakesweep.runs.record_cache import RecordCache
from lakesweep.runs.records import TYPES, PlanRecord, RunKind, RunRecord, RunStatus
from lakesweep.runs.run_log import RunLog
from lakesweep.store import Link, Store
from lakesweep.store.backends.memory import MemoryBackend

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _run(number: int) -> RunRecord:
    return RunRecord(
        run=f"run-{number}", lake="prod", kind=RunKind.PLAN, started_at=number, spec={}
    )


def _plan(name: str, created_at: int) -> PlanRecord:
    return PlanRecord(
        plan=name,
        lake="prod",
        address="/plans",
        sha256="",
        created_at=created_at,
        expires_at=created_at + 1,
        token=1,
    )


def test_a_run_is_read_once_and_a_missing_one_is_left_out() -> None:
    cache, asked = RecordCache(), list[Link]()

    def fetch(links: Sequence[Link]) -> list[RunRecord | None]:
        asked.extend(links)
        return [None if link == 3 else _run(link) for link in links]

    links = [Link(number) for number in (5, 3, 1)]
    for _ in range(2):
        assert [run.run for run in cache.runs(links, fetch)] == ["run-5", "run-1"]
    assert asked == [5, 3, 1, 3]


def test_it_never_grows_beyond_its_bound() -> None:
    cache = RecordCache()
    many = [Link(number) for number in range(20_000)]
    found = list(cache.runs(many, lambda links: [_run(link) for link in links]))
    assert len(found) == 20_000
    assert len(cache._runs) <= 12_000


def test_plans_are_read_again_when_the_log_has_others() -> None:
    cache = RecordCache()
    old, new = _plan("a", 1), _plan("b", 2)
    assert cache.plans(b"1", lambda: [old]) == (old,)
    assert cache.plans(b"1", lambda: [new]) == (old,)
    assert cache.plans(b"2", lambda: [old, new]) == (new, old)


def test_a_log_shows_every_change_at_once() -> None:
    clock = ManualClock(_START)
    with Store(MemoryBackend(), types=TYPES, clock=clock) as store:
        realm = store.create_realm("default")
        log, other = RunLog(realm, clock), RunLog(realm, clock)
        run = log.begin("prod", RunKind.PLAN, spec={})
        assert [each.status for each in log.list("prod")] == [RunStatus.RUNNING]
        other.finish(run, RunStatus.DONE, {"files": 1})
        assert [each.status for each in log.list("prod")] == [RunStatus.DONE]
        log.add_plan(_plan("plan-1", 1))
        assert [each.plan for each in log.plans()] == ["plan-1"]
        other.add_plan(_plan("plan-2", 2))
        assert [each.plan for each in log.plans()] == ["plan-2", "plan-1"]
        assert log.named_plan("plan-1") == _plan("plan-1", 1)
        assert log.named_plan("plan") is None
