"""A clock here that is ahead of a store's makes files look old, so somebody is asked first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import RefusedError
from tests.moments import NOON
from tests.sweeps import LAKE, PLANS, SMALL, Process, World
from tests.timed_store import TimedStore


def planned(behind: timedelta) -> World:
    """A lake with one orphan, whose plans go to a bucket with a clock that is behind ours."""
    world = World()
    world.plans = TimedStore(f"{PLANS}/", ManualClock(NOON - behind))
    world.create("t1")
    world.put(f"{LAKE}/t1/data/orphan.parquet")
    world.age()
    return world


def test_a_plan_whose_own_files_are_older_than_its_beginning_asks_for_a_word() -> None:
    world = planned(timedelta(days=3))
    made = Process(world).plan()
    assert "clock" in {guard.name for guard in made.guards}
    with pytest.raises(RefusedError, match=r"clock: .* 3d ahead of the store"):
        Process(world).apply(made.plan)
    assert Process(world).apply(made.plan, (*SMALL, "clock")).report.deleted == 1


@pytest.mark.parametrize("behind", [timedelta(minutes=9), timedelta(), -timedelta(days=3)])
def test_clocks_may_differ_a_little_and_may_be_behind(behind: timedelta) -> None:
    world = planned(behind)
    made = Process(world).plan()
    assert "clock" not in {guard.name for guard in made.guards}
    assert Process(world).apply(made.plan).report.deleted == 1
