"""What was set aside stays, and is found again, whatever happened since."""

from __future__ import annotations

import pytest

from tests.sweeps import LAKE, Process, World, plan, verdicts

ORPHANS = [f"{LAKE}/wh/t1/data/orphan-{number}.parquet" for number in range(3)]


@pytest.fixture
def world() -> World:
    """A table in a folder of the lake, with old orphans beside it."""
    world = World()
    world.by_copy = True
    world.create("t1", f"{LAKE}/wh/t1")
    world.append("t1", world.put(f"{LAKE}/wh/t1/data/live.parquet"))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


def set_aside(world: World, **section: object) -> str:
    """The plan that set the orphans aside, under some configuration."""
    process = Process(world, **section)
    made = process.plan()
    process.apply(made.plan, aside=True)
    return made.plan


@pytest.mark.parametrize("before", [{"locations": (f"{LAKE}/wh",)}, {"quarantine": f"{LAKE}/old"}])
def test_what_was_set_aside_under_another_configuration_is_not_swept(
    world: World, before: dict[str, object]
) -> None:
    set_aside(world, **before)
    held = world.files() - world.live()
    assert len(held) == len(ORPHANS)
    world.age()
    found = verdicts(world, plan(world))
    assert {found[path] for path in held} == {"own"}
