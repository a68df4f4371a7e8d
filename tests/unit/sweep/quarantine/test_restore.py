"""What was set aside stays, and is found again, whatever happened since."""

from __future__ import annotations

from typing import Any

import pytest

from lakesweep.errors import IncompleteError, NotFoundError
from lakesweep.runs.records import RunKind
from lakesweep.storage.object_store import Outcome
from lakesweep.sweep.holdings import find_holding
from lakesweep.sweep.quarantine.restore import QuarantineRestorer, count_held
from tests.sweeps import LAKE, DiedError, Process, World, at, plan, verdicts

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


def set_aside(world: World, **section: Any) -> str:
    """The plan that set the orphans aside, under some configuration."""
    process = Process(world, **section)
    made = process.plan()
    process.apply(made.plan, aside=True)
    return made.plan


@pytest.mark.parametrize("before", [{"locations": (f"{LAKE}/wh",)}, {"quarantine": f"{LAKE}/old"}])
def test_what_was_set_aside_under_another_configuration_is_not_swept(
    world: World, before: dict[str, Any]
) -> None:
    set_aside(world, **before)
    held = world.files() - world.live()
    assert len(held) == len(ORPHANS)
    world.age()
    found = verdicts(world, plan(world))
    assert {found[path] for path in held} == {"own"}


def test_what_was_set_aside_is_found_when_the_plan_is_gone(world: World) -> None:
    made = set_aside(world)
    world.plans.objects.clear()
    tally = Process(world).restore(made)
    assert (tally.found, tally.counts[Outcome.RESTORED]) == (3, 3)
    assert set(ORPHANS) <= world.files()


def test_what_cannot_be_found_any_more_is_no_success(world: World) -> None:
    made = set_aside(world)
    world.plans.objects.clear()
    world.lake.delete([key for key in world.lake.objects if key.startswith("_lakesweep/")])
    with pytest.raises(IncompleteError, match="quarantined 3 files, and none of them can be found"):
        Process(world).restore(made)


def test_a_hold_is_not_ended_by_a_run_that_failed(world: World) -> None:
    made = set_aside(world)
    process = Process(world)
    with pytest.raises(IncompleteError), process.running(RunKind.EMPTY, made):
        raise IncompleteError("no")
    assert find_holding(process.runs, made).ended is None


def test_a_name_that_was_not_set_aside_brings_nothing_back(world: World) -> None:
    made = set_aside(world)
    process = Process(world)
    keeper = QuarantineRestorer(process.stores, process.runs, process.lake)
    held, named = find_holding(process.runs, made), [ORPHANS[0], f"{LAKE}/typo"]
    with (
        pytest.raises(NotFoundError, match="did not quarantine s3://lake/typo"),
        process.running(RunKind.RESTORE, made) as session,
    ):
        keeper.restore(held, session, named)
    assert not set(ORPHANS) & world.files()


def test_what_a_run_set_aside_that_died_is_counted(world: World) -> None:
    process = Process(world)
    made = process.plan()
    process.gate.script = at("delete s3://lake/wh", process.gate.die, after=1)
    with pytest.raises(DiedError):
        process.apply(made.plan, aside=True)
    held = [key for key in world.lake.objects if key.startswith("_lakesweep/quarantine/")]
    reader = Process(world)
    found = count_held(reader.stores, find_holding(reader.runs, made.plan))
    assert found.files == len(held) > 0
