"""Roots that were known and are not listed any more: dropped, or hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesweep.errors import IncompleteError, RefusedError
from lakesweep.sweep.plan.document import PlanDocument
from tests.sweeps import LAKE, SMALL, World, apply, deletes, plan

GONE = (*SMALL, "roots-gone")


@pytest.fixture
def world() -> World:
    """Three tables with a file each, and an old orphan in the folder of the first."""
    world = World()
    for name in ("t1", "t2", "t3"):
        world.create(name)
        world.append(name, world.put(f"{LAKE}/{name}/data/live.parquet"))
    world.put(ORPHAN)
    world.age()
    return world


ORPHAN = f"{LAKE}/t1/data/orphan.parquet"


def _guard(made: PlanDocument, name: str = "roots-gone") -> str | None:
    return next((guard.message for guard in made.guards if guard.name == name), None)


def _hide(world: World, name: str) -> set[str]:
    """Take a name from the catalog; the files that it kept."""
    before = world.live()
    del world.catalog.pointers[name]
    return before - world.live()


def _rename(world: World, old: str, new: str) -> None:
    world.catalog.pointers[new] = world.catalog.pointers.pop(old)


# Plans.


def test_a_first_plan_knows_of_no_root_that_is_gone(world: World) -> None:
    _hide(world, "t3")
    made = plan(world)
    assert _guard(made) is None
    assert made.gone_roots == ()


def test_files_of_a_known_root_that_is_not_listed_go_only_if_somebody_says_so(world: World) -> None:
    plan(world)
    lost = _hide(world, "t3")
    made = plan(world)
    assert lost <= deletes(world, made)
    assert "t3 (last seen in catalog names at" in str(_guard(made))
    applied = apply(world, made.plan)
    assert applied.report.withheld == {"roots-gone": len(lost)}
    assert not applied.report.is_complete
    assert lost <= world.files()
    assert ORPHAN not in world.files()
    assert _guard(plan(world)) is not None
    apply(world, plan(world).plan, GONE)
    assert not lost & world.files()


def test_a_plan_tells_which_roots_are_gone_and_how_much_of_them_would_go(world: World) -> None:
    plan(world)
    lost = _hide(world, "t3")
    made = plan(world)
    (gone,) = made.gone_roots
    assert (gone.name, gone.origin, gone.deletes) == ("t3", "catalog names", len(lost))
    assert (made.roots.complete, made.roots.gone) == (2, 1)


def test_a_root_that_is_gone_without_a_file_to_delete_stops_nobody(world: World) -> None:
    plan(world)
    for path in _hide(world, "t3"):
        world.bucket.delete(path)
    assert _guard(plan(world)) is None


def test_nobody_is_asked_twice(world: World) -> None:
    plan(world)
    _hide(world, "t3")
    apply(world, plan(world).plan, GONE)
    world.put(f"{LAKE}/t3/data/left.parquet", old=True)
    assert _guard(plan(world)) is None


def test_whoever_only_looks_is_asked_again(world: World) -> None:
    plan(world)
    _hide(world, "t3")
    plan(world)
    assert _guard(plan(world)) is not None


@pytest.mark.parametrize("commits", [0, 1, 5])
def test_a_table_that_was_renamed_is_not_gone(world: World, commits: int) -> None:
    """Whether its metadata still names the file that was seen under the old name, or not."""
    plan(world)
    _rename(world, "t3", "t4")
    for _ in range(commits):
        world.append("t4")
    world.put(f"{LAKE}/t3/data/orphan.parquet", old=True)
    assert _guard(plan(world)) is None


def test_an_older_version_under_another_name_is_not_the_table(world: World) -> None:
    """A second catalog that was told of it long ago does not know what was written since."""
    world.catalog.pointers["copy"] = world.catalog.pointers["t3"]
    world.append("t3", world.put(f"{LAKE}/t3/data/later.parquet"))
    world.age()
    plan(world)
    _hide(world, "t3")
    assert "t3 (last seen" in str(_guard(plan(world)))


def test_a_table_with_the_id_and_the_log_of_another_one_is_not_that_one(world: World) -> None:
    """Who may write to t2 cannot hide that t3 is gone."""
    plan(world)
    pointer, uuid = world.catalog.pointers["t3"], world.table("t3").document["table-uuid"]
    lost = _hide(world, "t3")
    world.change("t2", **{"table-uuid": uuid})
    log = [*world.table("t2").document["metadata-log"], {"metadata-file": pointer}]
    table = world.table("t2")
    table.document["metadata-log"] = log
    world.bucket.write(world.catalog.pointers["t2"], json.dumps(table.document).encode())
    made = plan(world)
    assert "t3 (last seen" in str(_guard(made))
    apply(world, made.plan)
    assert lost <= world.files()


def test_what_cannot_be_listed_is_not_gone(world: World) -> None:
    plan(world)
    world.catalog.is_down = True
    made = plan(world)
    assert _guard(made) is None
    assert deletes(world, made) == set()


# Applies.


def test_a_root_that_disappears_between_plan_and_apply_ends_the_apply(world: World) -> None:
    """It may have taken up files of the plan before it was hidden, as this one did."""
    made = plan(world)
    world.append("t2", ORPHAN)
    pointer = world.catalog.pointers.pop("t2")
    with pytest.raises(RefusedError, match="roots-gone: known before, and not listed now: t2"):
        apply(world, made.plan)
    assert ORPHAN in world.files()
    world.catalog.pointers["t2"] = pointer
    apply(world, made.plan)
    assert ORPHAN in world.files()


def test_a_root_that_was_dropped_between_plan_and_apply_can_be_overridden(world: World) -> None:
    made = plan(world)
    _hide(world, "t2")
    apply(world, made.plan, GONE)
    assert ORPHAN not in world.files()


def test_a_root_that_was_renamed_between_plan_and_apply_ends_nothing(world: World) -> None:
    made = plan(world)
    _rename(world, "t2", "t4")
    apply(world, made.plan)
    assert ORPHAN not in world.files()


def test_a_catalog_that_lists_nothing_any_more_ends_the_apply_whatever_is_overridden(
    world: World,
) -> None:
    made = plan(world)
    pointers: dict[str, Any] = dict(world.catalog.pointers)
    world.catalog.pointers.clear()
    with pytest.raises(IncompleteError, match="catalog names listed tables when the plan was made"):
        apply(world, made.plan, GONE)
    assert ORPHAN in world.files()
    world.catalog.pointers |= pointers
    apply(world, made.plan)
    assert ORPHAN not in world.files()
