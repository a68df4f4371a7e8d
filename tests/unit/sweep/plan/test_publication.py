"""Old plans go, but for those that somebody may need."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from lakesweep.errors import NotFoundError
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.plan.publication import KEPT_PLANS, UNFINISHED_FOR
from tests.sweeps import LAKE, SMALL, DiedError, Process, World, apply, at, plan

MONTH = timedelta(days=32)
ORPHAN = f"{LAKE}/t1/data/orphan.parquet"


@pytest.fixture
def world() -> World:
    world = World()
    world.create("t1")
    world.append("t1", world.put(f"{LAKE}/t1/data/live.parquet"))
    world.put(ORPHAN)
    world.age()
    return world


def _plans(world: World, count: int) -> list[str]:
    return [plan(world).plan for _ in range(count)]


def _folders(world: World) -> set[str]:
    return {key.split("/")[1] for key in world.plans.objects}


def _sleep(world: World, time: timedelta) -> None:
    world.clock.sleep(time.total_seconds())


def test_old_plans_go_but_for_the_last_ones(world: World) -> None:
    old = _plans(world, KEPT_PLANS + 2)
    _sleep(world, MONTH)
    newest = plan(world).plan
    assert _folders(world) == {*old[3:], newest}
    with pytest.raises(NotFoundError):
        Process(world).runs.plan(old[2])
    assert Process(world).runs.plan(old[3]).plan == old[3]


def test_young_plans_stay_however_many(world: World) -> None:
    made = _plans(world, KEPT_PLANS + 3)
    assert _folders(world) == set(made)


def test_plans_are_kept_for_as_long_as_the_lake_says(world: World) -> None:
    old = _plans(world, KEPT_PLANS)
    _sleep(world, timedelta(days=3))
    newest = Process(world, keep_plans=timedelta(days=1)).plan().plan
    assert _folders(world) == {*old[1:], newest}


def test_what_was_set_aside_can_be_brought_back_for_ever(world: World) -> None:
    [held] = _plans(world, 1)
    Process(world).apply(held, aside=True)
    _plans(world, KEPT_PLANS)
    _sleep(world, MONTH)
    plan(world)
    assert ORPHAN not in world.files()
    Process(world).restore(held)
    assert ORPHAN in world.files()


def test_when_a_hold_has_ended_its_plan_goes(world: World) -> None:
    [held] = _plans(world, 1)
    Process(world).apply(held, aside=True)
    _plans(world, KEPT_PLANS)
    Process(world).empty(held)
    _sleep(world, MONTH)
    plan(world)
    assert held not in _folders(world)


def test_a_hold_that_was_ended_in_part_keeps_its_plan(world: World) -> None:
    [held] = _plans(world, 1)
    Process(world).apply(held, aside=True)
    process = Process(world)
    process.gate.script = at("delete s3://lake/_lakesweep", process.gate.die)
    with suppress(DiedError):
        process.empty(held)
    _sleep(world, MONTH)
    _plans(world, KEPT_PLANS)
    _sleep(world, MONTH)
    plan(world)
    assert held in _folders(world)


def test_what_died_before_it_was_a_plan_goes(world: World) -> None:
    process = Process(world)
    process.gate.script = at("catalog collect", process.gate.die)
    with suppress(DiedError):
        process.plan()
    [dead] = _folders(world)
    _sleep(world, UNFINISHED_FOR / 2)
    plan(world)
    assert dead in _folders(world)
    _sleep(world, UNFINISHED_FOR)
    plan(world)
    assert dead not in _folders(world)


def test_what_may_belong_to_others_stays(world: World) -> None:
    made = plan(world).plan
    others = "plan-20200101T000000-0123abcd"
    for key, found in list(world.plans.objects.items()):
        world.plans.write(key.replace(made, others), found.data)
    world.plans.write("prod/plan-of-mine/part", b"")
    plan(world)
    assert {others, "plan-of-mine"} <= _folders(world)


def test_a_plan_that_cannot_be_tidied_up_after_is_a_plan(world: World) -> None:
    old = _plans(world, KEPT_PLANS)
    _sleep(world, MONTH)
    process = Process(world)
    process.gate.script = at(f"delete s3://plans/prod/{old[0]}", process.gate.die)
    with suppress(DiedError):
        process.plan()
    assert process.gate.is_dead
    _sleep(world, timedelta(minutes=10))
    with pytest.raises(NotFoundError):
        Process(world).apply(old[0], SMALL)
    newest = Process(world).runs.newest_plan("prod").plan
    assert apply(world, newest).report.deleted == 1


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_what_only_the_making_needed_is_gone(world: World, mode: MatchMode) -> None:
    made = plan(world, mode=mode).plan
    folders = {key.split("/")[2] for key in world.plans.objects}
    assert folders == {"listing", "marks", "keep", "delete", "plan.json"}
    assert not [key for key in world.plans.objects if f"{made}/marks/work" in key]
