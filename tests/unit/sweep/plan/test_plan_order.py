from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.errors import DeniedError, IncompleteError, LeaseHeldError, UnavailableError
from lakesweep.runs.leases import LEASE_TERM
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.mark.marks import load_marks, save_marks
from lakesweep.sweep.plan.document import PlanDocument
from lakesweep.sweep.verdicts import Reason
from tests.sweeps import LAKE, PLANS, Process, World, at, deletes, plan, verdicts


@pytest.fixture
def world() -> World:
    """Two tables with a file each, and an old orphan in the folder of the first."""
    world = World()
    for name in ("t1", "t2"):
        world.create(name)
        world.append(name, world.put(f"{LAKE}/{name}/data/live.parquet"))
    world.put(f"{LAKE}/t1/data/orphan.parquet")
    world.age()
    return world


ORPHAN = f"{LAKE}/t1/data/orphan.parquet"


def _guards(document: PlanDocument) -> set[str]:
    return {guard.name for guard in document.guards}


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_what_nothing_references_would_go(world: World, mode: MatchMode) -> None:
    made = plan(world, mode=mode)
    assert deletes(world, made) == {ORPHAN} == world.files() - world.live()
    assert made.amount("keep").files == len(world.live())


def test_nothing_is_deleted_by_a_plan(world: World) -> None:
    before = world.files()
    plan(world)
    assert world.files() == before


# The order is the law.


def test_the_listing_is_stored_before_the_first_root_is_looked_at(world: World) -> None:
    process = Process(world)
    made = process.plan()
    calls = process.gate.calls
    first_root = next(n for n, call in enumerate(calls) if call.startswith("catalog"))
    listed = calls.index(f"write {PLANS}/prod/{made.plan}/listing/_dataset.json")
    last_listing = max(n for n, call in enumerate(calls) if call.startswith(f"list {LAKE}"))
    assert last_listing < listed < first_root


def test_the_lease_is_held_before_anything_is_listed(world: World) -> None:
    def is_refused() -> None:
        with pytest.raises(LeaseHeldError, match="is being worked on by plan-"):
            plan(world)

    Process(world, at(f"list {LAKE}", is_refused)).plan()


@pytest.mark.parametrize("call", ["listing/part-", "listing/_dataset", "catalog collect t1"])
def test_a_file_that_becomes_referenced_after_it_was_listed_stays(world: World, call: str) -> None:
    made = Process(world, at(call, lambda: world.append("t1", ORPHAN))).plan()
    assert deletes(world, made) == set()
    assert verdicts(world, made)[ORPHAN] == Reason.REFERENCED


def test_a_file_that_is_written_after_the_listing_is_not_judged(world: World) -> None:
    late = f"{LAKE}/t1/data/late.parquet"
    made = Process(world, at("catalog collect", lambda: world.put(late, old=True))).plan()
    assert late not in verdicts(world, made)


def test_a_root_that_moves_while_it_is_read_is_followed(world: World) -> None:
    """Its old metadata is gone, as after an expiry that cleans up."""

    def move() -> None:
        before = world.catalog.pointers["t1"]
        world.append("t1", ORPHAN)
        world.bucket.delete(before)

    made = Process(world, at("marks/work", move)).plan()
    assert made.roots.incomplete == 0
    assert deletes(world, made) == set()


def test_a_table_that_is_dropped_while_it_is_read_is_absent(world: World) -> None:
    def drop() -> None:
        world.bucket.delete(world.catalog.pointers.pop("t1"))

    made = Process(world, at("marks/work", drop)).plan()
    assert (made.roots.complete, made.roots.incomplete, made.roots.absent) == (1, 0, 1)


@pytest.mark.parametrize("call", ["listing/_dataset.json", "marks/marks.json", "delete/_dataset"])
def test_a_planner_that_lost_its_lease_stops_before_the_next_phase(world: World, call: str) -> None:
    process = Process(world, at(call, lambda: world.clock.sleep(LEASE_TERM.total_seconds())))
    with pytest.raises(LeaseHeldError, match="no longer holds"):
        process.plan()
    assert not [call for call in process.gate.calls if call.endswith("plan.json")]


def test_a_listing_that_is_cut_short_makes_no_plan(world: World) -> None:
    process = Process(world)

    def fail() -> None:
        raise UnavailableError(LAKE, "cut short")

    process.gate.script = at(f"list {LAKE}", fail)
    with pytest.raises(IncompleteError, match="cannot be listed"):
        process.plan()
    assert not [call for call in process.gate.calls if call.startswith("catalog")]
    plan(world)


def test_a_plan_that_could_not_be_written_can_be_made_again(world: World) -> None:
    def fail() -> None:
        raise DeniedError(PLANS, "denied")

    with pytest.raises(DeniedError):
        Process(world, at("plan.json", fail)).plan()
    assert deletes(world, plan(world)) == {ORPHAN}


# What is kept, and why.


def test_files_as_young_as_the_grace_are_too_new(world: World) -> None:
    made = plan(world, grace=timedelta(days=20, hours=23))
    assert verdicts(world, made)[ORPHAN] == Reason.UNREFERENCED
    made = plan(world, grace=timedelta(days=21))
    assert verdicts(world, made)[ORPHAN] == Reason.TOO_NEW


def test_files_from_the_future_are_of_unknown_age(world: World) -> None:
    world.lake.age("t1/data/orphan.parquet", world.clock.now() + timedelta(seconds=1))
    assert verdicts(world, plan(world))[ORPHAN] == Reason.AGE_UNKNOWN


def test_an_incomplete_root_that_nobody_remembers_holds_on_to_everything(world: World) -> None:
    world.put(f"{LAKE}/elsewhere/x.parquet", old=True)
    world.denied.add(world.catalog.pointers["t2"])
    made = plan(world)
    assert deletes(world, made) == set()
    assert _guards(made) >= {"incomplete"}
    assert verdicts(world, made)[ORPHAN] == Reason.INCOMPLETE_ROOT
    assert [root.name for root in made.incomplete_roots] == ["t2"]


def test_an_incomplete_root_that_moved_since_it_is_remembered_holds_on_to_everything(
    world: World,
) -> None:
    """It may keep its files in other folders by now, as this one does."""
    plan(world)
    world.append("t2", world.put(f"{LAKE}/fast/data/x.parquet", old=True))
    world.age()
    world.denied.add(world.catalog.pointers["t2"])
    assert deletes(world, plan(world, overridden=("incomplete",))) == set()


def test_an_incomplete_root_holds_on_to_the_folders_that_it_was_seen_to_use(world: World) -> None:
    pool = world.put(f"{LAKE}/pool/data/a.parquet", old=True)
    world.append("t2", pool)
    world.age()
    world.expire("t2")
    plan(world)
    world.denied.add(world.catalog.pointers["t2"])
    beside, inside = f"{LAKE}/pool/data/b.parquet", f"{LAKE}/t2/data/c.parquet"
    for path in (beside, inside):
        world.put(path, old=True)
    made = plan(world)
    found = verdicts(world, made)
    assert {found[path] for path in (pool, beside, inside)} == {Reason.INCOMPLETE_ROOT}
    assert deletes(world, made) == {ORPHAN}


def test_a_catalog_that_cannot_be_read_keeps_everything(world: World) -> None:
    plan(world)
    world.catalog.is_down = True
    made = plan(world)
    assert deletes(world, made) == set()
    assert "incomplete" in _guards(made)


def test_a_manifest_that_is_denied_is_not_taken_for_empty(world: World) -> None:
    manifest = next(path for path in world.live() if path.endswith("-m0.avro") and "/t1/" in path)
    world.denied.add(manifest)
    assert deletes(world, plan(world)) == set()


def test_the_locations_of_other_lakes_are_left_alone(world: World) -> None:
    theirs = world.put(f"{LAKE}/t1/data/theirs/x.parquet", old=True)
    like = world.put(f"{LAKE}/t1/data/theirs2/x.parquet", old=True)
    neighbours = {"other": (f"{LAKE}/t1/data/theirs",)}
    made = Process(world, neighbours=neighbours).plan()
    assert verdicts(world, made)[theirs] == Reason.FOREIGN
    assert deletes(world, made) == {ORPHAN, like}
    made = Process(world, neighbours=neighbours).plan(overridden=("foreign",))
    assert "foreign" in _guards(made)
    assert deletes(world, made) == {ORPHAN, like, theirs}


def test_a_lake_around_this_one_is_a_neighbour_too(world: World) -> None:
    made = Process(world, neighbours={"other": (LAKE,)}, locations=(f"{LAKE}/t1",)).plan()
    assert deletes(world, made) == set()


def test_tables_that_opt_out_keep_their_folders(world: World) -> None:
    written = {"gc.enabled": "false", "write.data.path": f"{LAKE}/written"}
    world.change("t1", properties=written)
    elsewhere = world.put(f"{LAKE}/written/x.parquet", old=True)
    world.age()
    found = verdicts(world, plan(world))
    assert {found[ORPHAN], found[elsewhere]} == {Reason.OPTED_OUT}
    made = plan(world, overridden=("gc.enabled",))
    assert deletes(world, made) >= {ORPHAN, elsewhere}
    assert "gc.enabled" in _guards(made)


def test_excluded_files_stay(world: World) -> None:
    made = Process(world, exclude=("t1/**",)).plan()
    assert verdicts(world, made)[ORPHAN] == Reason.EXCLUDED


def test_lakesweeps_own_folders_stay(world: World) -> None:
    held = world.put(f"{LAKE}/_lakesweep/quarantine/x.parquet", old=True)
    assert verdicts(world, plan(world))[held] == Reason.OWN


def test_only_known_kinds_go_unless_it_is_told(world: World) -> None:
    odd = world.put(f"{LAKE}/t1/notes.txt", old=True)
    hidden = world.put(f"{LAKE}/t1/.part/x.parquet", old=True)
    found = verdicts(world, Process(world, unknown="keep").plan())
    assert (found[odd], found[hidden]) == (Reason.UNKNOWN_KIND, Reason.HIDDEN)
    assert deletes(world, plan(world)) == {ORPHAN, odd, hidden}


# What one plan leaves for the next.


def test_the_second_plan_reads_only_new_manifests(world: World) -> None:
    assert plan(world).spec["manifests_reused"] == 0
    world.append("t1", ORPHAN)
    made = plan(world)
    assert (made.spec["manifests"], made.spec["manifests_reused"]) == (3, 2)
    assert deletes(world, made) == set()


@pytest.mark.parametrize("lost", ["marks.json", "content/part-", "sources/part-", "roots/_dataset"])
def test_a_cache_that_is_gone_costs_work_only(world: World, lost: str) -> None:
    plan(world)
    for key in [key for key in world.plans.objects if lost in key]:
        del world.plans.objects[key]
    made = plan(world)
    assert made.spec["manifests_reused"] == 0
    assert deletes(world, made) == {ORPHAN}


def test_a_cache_that_is_not_what_it_was_is_not_believed(world: World) -> None:
    """Nothing tells marks that were forged with care from others but the hash in the store."""
    folder = f"{PLANS}/prod/{plan(world).plan}/marks"
    stores = Process(world).stores
    marks = load_marks(stores, folder)
    rows = {name: list(read_dataset(stores, marks.datasets[name])) for name in _FORGED}
    for key in [key for key in world.plans.objects if re.search("/(content|usage|roots)/", key)]:
        del world.plans.objects[key]
    forged = {
        name: write_dataset(
            stores, f"{folder}/{name}", marks.datasets[name].schema, map(_FORGED[name], rows[name])
        )
        for name in _FORGED
    }
    save_marks(stores, replace(marks, datasets={**marks.datasets, **forged}))
    made = plan(world)
    assert made.spec["manifests_reused"] == 0
    assert deletes(world, made) == {ORPHAN}


def _without(column: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.invert(pc.match_substring(batch[column], "/t2/data/")))


_FORGED = {"content": partial(_without, "path"), "usage": partial(_without, "folder")}


def test_guards_know_what_earlier_runs_saw(world: World) -> None:
    assert _guards(plan(world)) == {"first-run"}
    for name in ("t1", "t2"):
        del world.catalog.pointers[name]
    assert "zero-live" in _guards(plan(world))


def test_what_roots_keep_elsewhere_does_not_make_a_lake_alive(world: World) -> None:
    world.put(f"{LAKE}/pool/data/x.parquet", old=True)
    made = Process(world, locations=(f"{LAKE}/pool",)).plan()
    assert "zero-live" in _guards(made)
