"""Lakes that share a catalog: a plan reads the tables that may reach into its lake, and no others.

The store of the lakes counts what is read of each table.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.sweep.plan.document import PlanDocument
from tests.sweeps import LAKE, PLANS, Process, World

_LAKES = ("a", "b", "c", "d")


class CountedStore(StoreWrapper):
    """Counts what is read below each folder of the bucket; some keys are damaged."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.reads: Counter[str] = Counter()
        self.damaged: set[str] = set()
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        with self._lock:
            self.reads[key.partition("/")[0]] += 1
        return b"damaged" if key in self.damaged else self.store.read(key)


class SharedCatalog:
    """Lakes with a table of two snapshots each, all in one catalog that each of them names."""

    def __init__(self) -> None:
        self.world = World()
        self.store = CountedStore(self.world.lake)
        for lake in _LAKES:
            self.world.create(lake, f"{lake}/orders")
            for _ in range(2):
                self.world.append(lake, self.world.put(f"{LAKE}/{lake}/orders/data/{lake}.parquet"))
        self.world.age()

    def plan(self, lake: str) -> PlanDocument:
        """Plan one lake; `store.reads` has what that read."""
        process = Process(self.world, locations=(f"{LAKE}/{lake}",))
        process.stores = Stores(replace={LAKE: self.store, PLANS: self.world.plans})
        others = {name: (f"{LAKE}/{name}",) for name in _LAKES if name != lake}
        process.lake = replace(process.lake, name=lake, plans=f"{PLANS}/{lake}", neighbours=others)
        self.store.reads.clear()
        return process.plan()

    def damage(self, table: str) -> None:
        self.store.damaged.add(self.world.catalog.pointers[table].removeprefix(f"{LAKE}/"))


@pytest.fixture
def lakes() -> SharedCatalog:
    return SharedCatalog()


def test_a_plan_reads_only_the_tables_of_its_own_lake(lakes: SharedCatalog) -> None:
    lakes.plan("a")
    assert set(lakes.store.reads) == set(_LAKES)
    plan = lakes.plan("b")
    assert plan.spec["roots_unread"] == 3
    assert set(lakes.store.reads) == {"b"}


def test_a_damaged_table_does_not_have_healthy_ones_read_again(lakes: SharedCatalog) -> None:
    lakes.damage("d")
    assert lakes.plan("a").roots.incomplete == 1
    plan = lakes.plan("b")
    assert set(lakes.store.reads) == {"b", "d"}
    assert lakes.store.reads["d"] == 1
    # Nothing is known of the damaged one, so it keeps what it may share.
    assert plan.roots.incomplete == 1


def test_a_table_damaged_since_it_was_read_holds_up_only_its_own_lake(lakes: SharedCatalog) -> None:
    for lake in _LAKES:
        lakes.plan(lake)
    lakes.damage("d")
    assert lakes.plan("d").roots.incomplete == 1
    for lake in ("a", "b", "c", "a"):
        plan = lakes.plan(lake)
        assert (plan.roots.incomplete, set(lakes.store.reads)) == (0, {lake})


def test_a_table_that_moved_is_read_although_older_marks_know_it(lakes: SharedCatalog) -> None:
    for lake in _LAKES:
        lakes.plan(lake)
    orphan = lakes.world.put(f"{LAKE}/a/orders/data/orphan.parquet", old=True)
    lakes.world.append("d", orphan)
    lakes.damage("d")
    lakes.plan("d")
    plan = lakes.plan("a")
    assert (plan.roots.incomplete, set(lakes.store.reads)) == (1, {"a", "d"})
