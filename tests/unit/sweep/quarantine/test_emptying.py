"""The hold of files ends unless something references them by now, whatever happened since."""

from __future__ import annotations

import threading
import time

import pytest

from lakesweep.errors import IncompleteError, LeaseHeldError, RefusedError
from lakesweep.sweep.holdings import find_holding
from tests.sweeps import LAKE, Process, World, at

ORPHANS = [f"{LAKE}/t1/data/orphan-{number}.parquet" for number in range(3)]


@pytest.fixture
def world() -> World:
    """A table with old orphans beside it."""
    world = World()
    world.by_copy = True
    world.create("t1", "t1")
    world.append("t1", world.put(f"{LAKE}/t1/data/live.parquet"))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


def set_aside(world: World) -> str:
    """The plan that set the orphans aside."""
    process = Process(world)
    made = process.plan()
    process.apply(made.plan, aside=True)
    assert not set(ORPHANS) & world.files()
    return made.plan


def held(world: World) -> int:
    return len([key for key in world.lake.objects if key.startswith("_lakesweep/")])


def test_what_nothing_references_goes_for_good(world: World) -> None:
    made = set_aside(world)
    released = Process(world).empty(made)
    assert (released.tally.deleted, released.kept) == (3, 0)
    assert (held(world), find_holding(Process(world).runs, made).files) == (0, 0)
    assert find_holding(Process(world).runs, made).ended


def test_what_a_table_took_up_since_stays_and_can_be_brought_back(world: World) -> None:
    made = set_aside(world)
    world.append("t1", ORPHANS[1])

    released = Process(world).empty(made)

    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[1]])
    found = find_holding(Process(world).runs, made)
    assert (found.ended, found.files) == (None, 1)
    Process(world).restore(made)
    assert world.live() <= world.files()


def test_what_came_back_does_not_keep_a_hold_from_ending(world: World) -> None:
    made = set_aside(world)
    world.append("t1", ORPHANS[1])
    Process(world).restore(made)

    released = Process(world).empty(made)

    assert (released.kept, released.tally.absent) == (0, 3)
    assert set(ORPHANS) <= world.files()
    assert find_holding(Process(world).runs, made).ended


def test_a_table_that_is_rolled_back_keeps_what_it_shows_again(world: World) -> None:
    before = world.catalog.pointers["t1"]
    old = world.append("t1", world.put(f"{LAKE}/t1/data/rolled.parquet"))
    world.catalog.pointers["t1"] = before  # nobody knows the commit, until somebody registers it
    world.age()
    made = set_aside(world)
    world.catalog.pointers["again"] = old

    with pytest.raises(IncompleteError, match="again could not be read"):
        Process(world).empty(made)  # its own metadata file was set aside as well

    assert held(world) > len(ORPHANS)


@pytest.mark.parametrize("how", ["catalog", "table"])
def test_a_root_that_cannot_be_read_lets_nothing_go(world: World, how: str) -> None:
    made = set_aside(world)
    if how == "catalog":
        world.catalog.is_down = True
    else:
        world.denied.add(world.append("t1"))
    before = held(world)
    with pytest.raises(IncompleteError, match="could not be read") as caught:
        Process(world).empty(made)
    assert held(world) == before
    assert f"lakesweep quarantine restore {made}" in caught.value.hint
    assert find_holding(Process(world).runs, made).ended is None


def test_a_table_that_is_not_listed_any_more_asks_for_a_word(world: World) -> None:
    made = set_aside(world)
    world.create("other", "other")
    pointer = world.catalog.pointers.pop("t1")
    with pytest.raises(RefusedError, match="roots-gone") as caught:
        Process(world).empty(made)
    assert caught.value.hint.endswith("check whether these roots were really dropped")
    assert held(world) == 3
    assert Process(world).empty(made, ["roots-gone"]).tally.deleted == 3
    assert pointer.removeprefix(f"{LAKE}/") in world.lake.objects


def test_what_is_taken_up_while_files_go_stays(world: World) -> None:
    made = set_aside(world)
    process = Process(world)

    def take_up() -> None:
        """As the first file goes the last one is taken up, and whoever watches sees it."""
        world.append("t1", ORPHANS[2])
        while any(thread.name == "roots" for thread in threading.enumerate()):
            time.sleep(0.01)

    process.look_every *= 0
    process.gate.script = at("delete s3://lake/_lakesweep", take_up)
    released = process.empty(made)
    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[2]])


def test_what_is_taken_up_while_other_roots_are_read_stays(world: World) -> None:
    """The first table was read already, and takes a file up before anything goes."""
    world.create("t2", "t2")
    made = set_aside(world)
    process = Process(world)
    process.look_every *= 1_000
    process.gate.script = at("catalog collect t2", lambda: world.append("t1", ORPHANS[2]))
    released = process.empty(made)
    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[2]])


@pytest.mark.parametrize("lost", ["plan.json", "marks", "apply", ""])
def test_a_hold_ends_when_parts_of_its_plan_are_gone(world: World, lost: str) -> None:
    made = set_aside(world)
    world.append("t1", ORPHANS[0])
    begin = f"prod/{made}/"
    for key in [key for key in world.plans.objects if key.startswith(begin)]:
        if lost in key.removeprefix(begin):
            world.plans.objects.pop(key)

    released = Process(world).empty(made)

    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[0]])


def test_nothing_is_left_behind_beside_the_plans(world: World) -> None:
    made = set_aside(world)
    Process(world).empty(made)
    assert {key.split("/")[1] for key in world.plans.objects} == {made}


def test_an_address_outside_of_what_is_configured_now_is_looked_at_all_the_same(
    world: World,
) -> None:
    made = set_aside(world)
    world.append("t1", ORPHANS[0])
    released = Process(world, locations=(f"{LAKE}/elsewhere",)).empty(made)
    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[0]])


def test_whoever_lost_the_lease_lets_nothing_go(world: World) -> None:
    made = set_aside(world)
    process = Process(world)

    def lose() -> None:
        assert process.session is not None
        process.session.lease.is_lost = True

    process.gate.script = at("catalog collect", lose)
    with pytest.raises(LeaseHeldError):
        process.empty(made)
    assert held(world) == 3
