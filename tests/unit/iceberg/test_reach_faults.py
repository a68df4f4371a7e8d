"""Every read of every file of a table, once missing, cut short, damaged, denied and in a storm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import (
    DeniedError,
    IncompleteError,
    LakesweepError,
    MissingError,
    NotFoundError,
    ThrottledError,
    UnreadableError,
)
from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import load_metadata
from lakesweep.iceberg.purge import execute_purge, plan_purge
from lakesweep.marks.unreadable import ReadFailure, Strict
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import (
    Effect,
    Faulty,
    Recording,
    StorageFault,
    damage,
    fail,
    truncate,
)
from lakesweep.storage.wrappers.retry import Retrying
from tests.lake import EngineLake, EngineTable
from tests.moments import NOON

#: Together these have every kind of file that a table reads.
TABLES = (
    "lake.shop.events",
    "lake.shop.orders",
    "lake.shop.profiles",
    "lake.shop.plain_v1",
    "lake.shop.draft_v4",
    "lake.shop.gzipmeta",
    "hdp.old.counts",
)
FAULTS: dict[ReadFailure, Callable[[int], Effect]] = {
    ReadFailure.MISSING: lambda _: fail(MissingError),
    ReadFailure.TRUNCATED: lambda size: truncate(size // 2),
    ReadFailure.DAMAGED: lambda _: damage(-8),
    ReadFailure.DENIED: lambda _: fail(DeniedError),
    ReadFailure.UNAVAILABLE: lambda _: fail(ThrottledError),
}
_names = count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    return EngineLake.unpack(tmp_path_factory.mktemp("engine"))


def fresh_store(lake: EngineLake) -> ObjectStore:
    """The lake's bucket in memory."""
    return lake.fill(Stores().open(f"memory://faults-{next(_names)}/"))


def opened(store: ObjectStore) -> Stores:
    """Stores whose bucket `lake` is this one, with retries that need no time."""
    return Stores(replace={"s3://lake": Retrying(store, ManualClock(NOON), Random(1))})


def read_keys(store: ObjectStore, table: EngineTable) -> list[str]:
    """Every key that a strict walk reads, the metadata first."""
    recording = Recording(store)
    walk(opened(recording), table)
    return list(dict.fromkeys(recording.keys("read")))


def walk(stores: Stores, table: EngineTable) -> None:
    metadata = load_metadata(stores, table.metadata_path)
    for _ in reached_files(stores, metadata, Strict()):
        pass


def faulty(store: ObjectStore, key: str, state: ReadFailure) -> Stores:
    effect = FAULTS[state](len(store.read(key)))
    plan = [StorageFault(effect, methods=frozenset({"read"}), key=lambda name: name == key)]
    return opened(Faulty(store, plan))


def stored(store: ObjectStore) -> set[str]:
    stores = Stores(replace={"s3://lake": store})
    return {
        path for batch in list_files(stores, "s3://lake/") for path in batch["path"].to_pylist()
    }


@pytest.mark.parametrize("state", FAULTS)
@pytest.mark.parametrize("name", TABLES)
def test_marking_stops_at_the_first_file_that_cannot_be_read(
    name: str, state: ReadFailure, lake: EngineLake
) -> None:
    store, table = fresh_store(lake), lake.table(name)
    metadata_key, *others = read_keys(store, table)
    with pytest.raises((IncompleteError, NotFoundError), match=metadata_key.rpartition("/")[2]):
        walk(faulty(store, metadata_key, state), table)
    for key in others:
        with pytest.raises(UnreadableError) as caught:
            walk(faulty(store, key, state), table)
        assert caught.value.path.endswith(key)
        assert caught.value.state == state


@pytest.mark.parametrize("state", FAULTS)
@pytest.mark.parametrize("name", TABLES)
def test_purging_goes_on_and_touches_nothing_else(
    name: str, state: ReadFailure, lake: EngineLake
) -> None:
    table = lake.table(name)
    for key in read_keys(fresh_store(lake), table)[1:]:
        store = fresh_store(lake)
        before = stored(store)
        stores = faulty(store, key, state)
        problems, failed = purge(stores, table)
        assert [(p.endswith(key), s) for p, s in problems] == [(True, state)]
        assert failed == 1
        gone = before - stored(store)
        assert gone <= table.purged()
        assert (f"s3://lake/{key}" in gone) is (state is ReadFailure.MISSING)


@pytest.mark.parametrize("state", FAULTS)
def test_without_its_metadata_a_table_is_not_purged_at_all(
    state: ReadFailure, lake: EngineLake
) -> None:
    store, table = fresh_store(lake), lake.table("lake.shop.events")
    before = stored(store)
    with pytest.raises(LakesweepError):
        purge(faulty(store, read_keys(store, table)[0], state), table)
    assert stored(store) == before


@pytest.mark.parametrize("name", TABLES)
def test_what_a_storm_kept_is_purged_when_it_is_over(name: str, lake: EngineLake) -> None:
    table = lake.table(name)
    store = fresh_store(lake)
    before = stored(store)
    manifest = read_keys(store, table)[-1]
    purge(faulty(store, manifest, ReadFailure.UNAVAILABLE), table)
    assert table.metadata_path in stored(store)
    purge(opened(store), table)
    assert before - stored(store) == table.purged() & before


def test_a_storm_that_ends_is_waited_for(lake: EngineLake) -> None:
    store, table = fresh_store(lake), lake.table("lake.shop.events")
    storm = StorageFault(fail(ThrottledError), methods=frozenset({"read"}), times=5)
    walk(opened(Faulty(store, [storm])), table)


def purge(stores: Stores, table: EngineTable) -> tuple[list[tuple[str, ReadFailure]], int]:
    metadata = load_metadata(stores, table.metadata_path)
    with plan_purge(stores, metadata) as plan:
        tally = execute_purge(plan, lambda batches: delete_files(stores, batches))
        return [(problem.path, problem.state) for problem in plan.problems], tally.failed
