"""What lies in the folder of plans and is not what Lakesweep wrote there deletes no live file."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import DamagedError, LakesweepError
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import RunKind, run_folder
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import MANIFEST_NAME
from lakesweep.storage.datasets.writer import new_part_name, write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.mark.marks import DOCUMENT as MARKS
from tests.sweeps import LAKE, PLANS, DiedError, Process, World, at, deletes, plan, rows

LIVE = f"{LAKE}/t1/data/live.parquet"
ORPHANS = [f"{LAKE}/t1/data/orphan-{number}.parquet" for number in range(3)]

Swap = Callable[[str, bytes], bytes]


class Swapped(StoreWrapper):
    """Objects are changed by another writer as soon as they are written."""

    def __init__(self, store: ObjectStore, swap: Swap) -> None:
        super().__init__(store)
        self._swap = swap

    def write(self, key: str, data: bytes) -> None:
        self.store.write(key, self._swap(key, data))

    def write_new(self, key: str, data: bytes) -> None:
        self.store.write_new(key, self._swap(key, data))


@pytest.fixture
def world() -> World:
    """A table with old orphans beside it."""
    world = World()
    world.by_copy = True
    world.create("t1")
    world.append("t1", world.put(LIVE))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


def swapping(world: World, swap: Swap) -> Process:
    process = Process(world)
    lake, plans = (process.stores.open(parse(f"{place}/")) for place in (LAKE, PLANS))
    process.stores = Stores(replace={LAKE: lake, PLANS: Swapped(plans, swap)})
    return process


def emptied(work: str) -> Swap:
    """Filters of some names, without a single bit."""

    def swap(key: str, data: bytes) -> bytes:
        if not key.endswith(".bloom") or ("work" in key.split("/")) != (work == "work"):
            return data
        found = load_bloom(key, data)
        return dump_bloom(BloomFilter(found.shape, found.shards))

    return swap


@pytest.mark.parametrize("which", ["work", "whole"])
def test_a_filter_that_was_swapped_makes_no_plan(world: World, which: str) -> None:
    process = swapping(world, emptied(which))
    with pytest.raises(DamagedError, match="Bloom filter has the wrong SHA-256"):
        process.plan(mode=MatchMode.BLOOM)


def test_marks_that_call_a_catalog_unreadable_do_not_excuse_it(world: World) -> None:
    """What a plan could not read was accepted; what it could read must be readable at apply."""
    made = plan(world)
    key = f"prod/{made.plan}/marks/{MARKS}"
    document = json.loads(world.plans.read(key))
    document["unknown"] = [{"origin": "catalog names", "reason": "was down"}]
    world.plans.write(key, json.dumps(document).encode())
    world.catalog.is_down = True
    before = world.files()
    with suppress(LakesweepError):
        Process(world).apply(made.plan)
    assert world.files() == before


def test_outcomes_that_were_made_up_only_keep_files(world: World) -> None:
    made = plan(world)
    process = Process(world)
    process.gate.script = at("delete s3://lake", process.gate.die)
    with suppress(DiedError):
        process.apply(made.plan)
    world.clock.sleep((LEASE_TERM + 2 * CLOCK_MARGIN).total_seconds())
    made_up = pa.table({"path": [LIVE, ORPHANS[0]], "outcome": ["failed", "deleted"]})
    sink = pa.BufferOutputStream()
    pq.write_table(made_up, sink)
    key = f"prod/{made.plan}/outcomes/{new_part_name()}"
    world.plans.write(key, sink.getvalue().to_pybytes())

    Process(world).apply(made.plan)

    assert world.live() | {ORPHANS[0]} == world.files()


def _verdicts(paths: list[str], hashed: list[str]) -> pa.RecordBatch:
    """Verdicts that name some paths and have the hashes of others."""
    h1, h2 = hash_columns(file_hashes(pa.array(hashed, pa.string())))
    known = {
        "path": paths,
        "h1": h1,
        "h2": h2,
        "verdict": ["delete"] * len(paths),
        "reason": ["orphan"] * len(paths),
    }
    columns = [
        known.get(field.name, [None if field.nullable else 1] * len(paths)) for field in VERDICTS
    ]
    return pa.RecordBatch.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns, VERDICTS, strict=True)
        ],
        schema=VERDICTS,
    )


def _replace_dataset(process: Process, address: str, batch: pa.RecordBatch) -> None:
    """Put another dataset in place of one, complete in itself."""
    place = f"{address.removeprefix(f'{PLANS}/')}/{MANIFEST_NAME}"
    process.world.plans.objects.pop(place, None)
    write_dataset(Stores(replace={PLANS: process.world.plans}), address, VERDICTS, [batch])


def _quarantined(world: World) -> tuple[str, str]:
    """A plan that was applied to quarantine, and the address of what it was to move."""
    process = Process(world)
    made = process.plan()
    process.apply(made.plan, aside=True)
    run = next(each for each in process.runs.list("prod") if each.kind is RunKind.APPLY)
    return made.plan, f"{run_folder(f'{PLANS}/prod/{made.plan}', run.run)}/delete"


def _held(world: World) -> set[str]:
    return {key for key in world.lake.objects if key.startswith("_lakesweep/quarantine")}


def test_a_hold_ends_only_by_the_list_that_the_store_vouches_for(world: World) -> None:
    made, address = _quarantined(world)
    world.append("t1", ORPHANS[0])  # referenced again, so its copy must stay
    before = _held(world)
    forged = _verdicts([ORPHANS[0]], [f"{LAKE}/t1/data/nothing.parquet"])
    _replace_dataset(Process(world), address, forged)

    with pytest.raises(DamagedError, match="is not the dataset that was written there"):
        Process(world).empty(made)

    assert before == _held(world)


def test_runs_of_older_versions_are_believed_as_far_as_their_plan(world: World) -> None:
    made, address = _quarantined(world)
    process = Process(world)
    run = next(each for each in process.runs.list("prod") if each.kind is RunKind.APPLY)
    process.runs._put_run(msgspec.structs.replace(run, datasets=None), "update")
    world.append("t1", ORPHANS[0])
    _replace_dataset(process, address, _verdicts([ORPHANS[0]], [f"{LAKE}/t1/data/nothing"]))

    released = Process(world).empty(made)

    assert (released.tally.deleted, released.referenced) == (2, [ORPHANS[0]])


def test_what_is_deleted_is_what_was_judged_whatever_lies_in_the_folder(world: World) -> None:
    """The manifest names other parts, complete and hashed, as soon as it is written."""
    made = plan(world)
    assert deletes(world, made) == set(ORPHANS)
    other = f"{PLANS}/elsewhere/delete"
    _replace_dataset(Process(world), other, _verdicts([LIVE], [LIVE]))
    forged = {
        key.rpartition("/")[2]: data.data
        for key, data in world.plans.objects.items()
        if key.startswith("elsewhere/")
    }

    def swap(key: str, data: bytes) -> bytes:
        folder, _, name = key.rpartition("/")
        if "/apply-" not in key or not folder.endswith("/delete") or name != MANIFEST_NAME:
            return data
        for part, content in forged.items():
            if part != MANIFEST_NAME:
                world.plans.write(f"{folder}/{part}", content)
        return forged[MANIFEST_NAME]

    with suppress(LakesweepError):
        swapping(world, swap).apply(made.plan)

    assert world.live() <= world.files()
    assert rows(world, other)
