"""Every file that marking reads, in turn missing, cut short, damaged, denied and in a storm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import cycle
from random import Random

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DeniedError, MissingError, ThrottledError
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.storage.address import folder_identity, identity
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Effect, Faulty, StorageFault, damage, fail, truncate
from lakesweep.storage.wrappers.retry import Retrying
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.mark.root_status import trace
from tests.iceberg_tables import Names
from tests.lake import EngineLake
from tests.marked import incomplete, live, live_of, root, spec_for
from tests.moments import NOON

FAULTS: dict[ReadFailure, Callable[[int], Effect]] = {
    ReadFailure.MISSING: lambda _: fail(MissingError),
    ReadFailure.TRUNCATED: lambda size: truncate(size // 2),
    ReadFailure.DAMAGED: lambda _: damage(-8),
    ReadFailure.DENIED: lambda _: fail(DeniedError),
    ReadFailure.UNAVAILABLE: lambda _: fail(ThrottledError),
}


class Marked:
    """The engine's lake in memory, marked once without faults."""

    def __init__(self, lake: EngineLake) -> None:
        self.lake = lake
        self.store = lake.fill(Stores().open("memory://marking-faults/"))
        self.stores = Stores(replace={"s3://lake": self.store})
        self.pointers = {table.name: table.metadata_path for table in lake.tables()}
        self.views = [table.name for table in lake.tables() if table.is_view]
        self.marks = self.mark(self.stores, self.pointers)

    def mark(self, stores: Stores, pointers: Mapping[str, str]) -> Marks:
        return mark(spec_for(stores), [Names(dict(pointers), self.views)])

    @cached_property
    def needed_by(self) -> Mapping[str, set[str]]:
        """The roots that lead to each file that is read."""
        paths = {
            row["source"]: row["path"]
            for batch in read_dataset(self.stores, self.marks.datasets["sources"])
            for row in batch.to_pylist()
        }
        found: defaultdict[str, set[str]] = defaultdict(set)
        names: defaultdict[int, set[str]] = defaultdict(set)
        for each in self.marks.roots:
            names[each.source or 0].add(each.name)
        edges = self.marks.datasets["edges"]
        lineage = trace(names, lambda: read_dataset(self.stores, edges))
        pairs = zip(lineage.roots.tolist(), lineage.sources.tolist(), strict=True)
        for number, source in pairs:
            found[paths[source]] |= names[number]
        return found

    def faulty(self, states: Mapping[str, ReadFailure]) -> Stores:
        """Stores in which some files cannot be read, with retries that need no time."""
        plan = [self._fault(identity(path), state) for path, state in states.items()]
        store: ObjectStore = Retrying(Faulty(self.store, plan), ManualClock(NOON), Random(1))
        return Stores(replace={"s3://lake": store})

    def _fault(self, path: str, state: ReadFailure) -> StorageFault:
        key = path.removeprefix("s3://lake/")
        effect = FAULTS[state](len(self.store.read(key)))
        return StorageFault(effect, methods=frozenset({"read"}), key=lambda name: name == key)


def apart(needed_by: Mapping[str, set[str]]) -> list[list[str]]:
    """All files, in groups in which no root needs two of them."""
    groups: list[list[str]] = []
    for path, needed in sorted(needed_by.items()):
        free = (g for g in groups if all(needed.isdisjoint(needed_by[other]) for other in g))
        group = next(free, None)
        if group is None:
            groups.append([path])
        else:
            group.append(path)
    return groups


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Marked:
    return Marked(EngineLake.unpack(tmp_path_factory.mktemp("engine")))


def test_each_root_reaches_exactly_what_the_engine_says(marked: Marked) -> None:
    for table in marked.lake.tables():
        found = live_of(marked.stores, marked.marks, root(marked.marks, table.name))
        assert found == table.referenced(), table.name


def test_all_roots_together_reach_all_but_what_the_engine_calls_unreferenced(
    marked: Marked,
) -> None:
    stored = {f"s3://lake/{key}" for key in marked.lake.objects}
    reached = {path for _, path in live(marked.stores, marked.marks)}
    assert stored - reached == set(marked.lake.orphans()["all-unreferenced"])


def test_every_file_in_turn_makes_exactly_the_roots_that_need_it_incomplete(
    marked: Marked,
) -> None:
    faults = cycle(FAULTS)
    for group in apart(marked.needed_by):
        states = {path: next(faults) for path in group}
        marks = marked.mark(marked.faulty(states), marked.pointers)
        assert incomplete(marks) == set().union(*(marked.needed_by[path] for path in group))
        for path, state in states.items():
            for name in marked.needed_by[path]:
                (reason,) = root(marks, name).reasons
                assert reason.startswith(f"{path}: {state}: ")


@pytest.mark.parametrize("state", FAULTS)
@pytest.mark.parametrize("name", ["lake.shop.orders", "lake.shop.draft_v4", "hdp.old.counts"])
def test_every_fault_in_every_file_of_a_table_vetoes_its_folders(
    name: str, state: ReadFailure, marked: Marked
) -> None:
    pointers = {name: marked.pointers[name]}
    whole = root(marked.marks, name)
    for path in sorted(path for path, needed in marked.needed_by.items() if name in needed):
        found = root(marked.mark(marked.faulty({path: state}), pointers), name)
        assert found.reasons
        vetoed = tuple(map(folder_identity, found.folders))
        # Whatever is incomplete, the table's own folder is known.
        assert whole.facts is not None
        assert folder_identity(whole.facts.location).startswith(vetoed)


@pytest.mark.parametrize("state", FAULTS)
def test_what_can_be_read_of_an_incomplete_root_is_kept(state: ReadFailure, marked: Marked) -> None:
    name = "lake.shop.orders"
    everything = live_of(marked.stores, marked.marks, root(marked.marks, name))
    manifests = sorted(path for kind, path in everything if kind == "manifest")
    stores = marked.faulty({manifests[0]: state})
    marks = marked.mark(stores, {name: marked.pointers[name]})
    found = live_of(marked.stores, marks, root(marks, name))
    assert found < everything
    assert {(kind, path) for kind, path in everything if kind.startswith(("m", "s"))} <= found
