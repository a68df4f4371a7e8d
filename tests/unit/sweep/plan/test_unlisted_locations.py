"""A location that cannot be listed is kept; the others are planned and swept as usual."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakesweep.config import IcebergScanRoot
from lakesweep.errors import DeniedError, LakesweepError, MissingError, UnavailableError
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from tests.planned import Desk
from tests.sweeps import LAKE, PLANS, Process, World, deletes

LOCATIONS = (f"{LAKE}/one", f"{LAKE}/two")
ORPHANS = [f"{LAKE}/one/t1/data/orphan.parquet", f"{LAKE}/two/t2/data/orphan.parquet"]


@pytest.fixture
def world() -> World:
    """Two locations with a table and an orphan each."""
    world = World()
    for name, folder in (("t1", "one/t1"), ("t2", "two/t2")):
        world.create(name, folder)
        world.append(name, world.put(f"{LAKE}/{folder}/data/live.parquet"))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


def _blind(
    world: World,
    error: type[LakesweepError] = DeniedError,
    key: Callable[[str], bool] = lambda key: key.startswith("two"),
) -> Process:
    """A process that cannot list the second location."""
    process = Process(world, locations=LOCATIONS)
    denied = StorageFault(fail(error), frozenset({"list", "head"}), key=key)
    process.stores = Stores(replace={LAKE: Faulty(world.lake, [denied]), PLANS: world.plans})
    return process


def test_only_the_location_that_cannot_be_listed_is_kept(world: World) -> None:
    Process(world, locations=LOCATIONS).plan()
    made = _blind(world).plan()
    [root] = made.incomplete_roots
    assert (root.name, made.roots.incomplete) == (LOCATIONS[1], 1)
    assert "cannot be listed" in root.reason
    assert deletes(world, made) == {ORPHANS[0]}
    assert "live-fell" not in {guard.name for guard in made.guards}
    applied = Process(world, locations=LOCATIONS).apply(made.plan)
    assert [path for path in ORPHANS if path in world.files()] == [ORPHANS[1]]
    assert applied.report.deleted == 1


def test_a_root_that_is_gone_is_remembered_while_its_files_cannot_be_listed(world: World) -> None:
    Process(world, locations=LOCATIONS).plan()
    del world.catalog.pointers["t2"]
    _blind(world).plan()
    made = Process(world, locations=LOCATIONS).plan()
    assert [root.name for root in made.gone_roots] == ["t2"]


def test_a_scan_that_cannot_see_all_files_keeps_everything(world: World) -> None:
    scan = IcebergScanRoot(type="iceberg-scan", path=LAKE)
    process = Process(world, locations=LOCATIONS, roots=(scan,))
    process.stores = _blind(world).stores
    assert deletes(world, process.plan()) == set()


@pytest.mark.parametrize("error", [DeniedError, MissingError, UnavailableError])
def test_a_lake_of_which_nothing_can_be_listed_has_no_plan(
    world: World, error: type[LakesweepError]
) -> None:
    with pytest.raises(error):
        _blind(world, error, key=lambda _: True).plan()


def test_a_check_leaves_out_what_cannot_be_listed(world: World) -> None:
    world.bucket.delete(f"{LAKE}/two/t2/data/live.parquet")
    process = _blind(world)
    desk = Desk(process.stores, process.lake.section, [process.source], world.clock)
    found = desk.check(desk.survey())
    assert (found.files, found.outside > 0) == (0, True)
