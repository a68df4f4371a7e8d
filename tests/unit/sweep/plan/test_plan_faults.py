"""Plans of the engine's lake while its files cannot be read, are cut short, or stores storm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, repeat, zip_longest
from random import Random

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import (
    DeniedError,
    IncompleteError,
    MissingError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.storage.address import folder_identity
from lakesweep.storage.local import listing
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Effect, Faulty, StorageFault, fail, lose, truncate
from lakesweep.storage.wrappers.retry import Retrying
from lakesweep.sweep.plan.document import PlanDocument
from tests.lake import EngineLake, EngineTable
from tests.moments import NOON
from tests.sweeps import LAKE, PLANS, Process, World, apply, deletes, plan

FAULTS: Mapping[str, Callable[[int], Effect]] = {
    "missing": lambda _: fail(MissingError),
    "truncated": lambda size: truncate(size // 2),
    "denied": lambda _: fail(DeniedError),
    "unavailable": lambda _: fail(ThrottledError),
}
_READ = frozenset({"read", "read_range"})
_SOURCES = {
    IcebergKind.METADATA,
    IcebergKind.VIEW_METADATA,
    IcebergKind.MANIFEST_LIST,
    IcebergKind.MANIFEST,
}


@dataclass(frozen=True)
class Swept:
    """The engine's lake, and what is right for it."""

    world: World
    tables: Sequence[EngineTable]
    orphans: set[str]

    def with_lake(self, store: ObjectStore) -> Process:
        """A process for which another store stands in for the lake."""
        process = Process(self.world)
        process.stores = Stores(replace={LAKE: store, PLANS: self.world.plans})
        return process

    def forget_marks(self) -> None:
        """So that all is read again, although the folders of roots are remembered."""
        for key in [key for key in self.world.plans.objects if key.endswith("marks.json")]:
            del self.world.plans.objects[key]

    def read_files(self) -> Iterator[tuple[str, EngineTable]]:
        """Every file that marking reads, and a table that needs it."""
        for files in self.rounds():
            yield from files.items()

    def rounds(self) -> Iterator[Mapping[str, EngineTable]]:
        """Every file that is read, in turn: of each table one in each round."""
        files = [
            [(path, table) for kind, path in sorted(table.referenced()) if kind in _SOURCES]
            for table in self.tables
        ]
        for found in zip_longest(*files):
            yield dict(one for one in found if one)


@pytest.fixture(scope="module")
def engine_lake(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    return EngineLake.unpack(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def swept(engine_lake: EngineLake) -> Swept:
    world = World()
    engine_lake.fill(world.lake)
    world.age()
    tables = engine_lake.tables()
    world.catalog.pointers |= {table.name: table.metadata_path for table in tables}
    found = engine_lake.orphans()
    opted_out = tuple(folder_identity(path) for path in found["locations-with-gc-disabled"])
    kept = (*opted_out, f"{LAKE}/warehouse/shop/dropped/")  # no catalog ever listed this table
    orphans = {path for path in found["all-unreferenced"] if not path.startswith(kept)}
    return Swept(world, tables, orphans)


def _faulty(
    world: World, paths: Iterable[str], effects: Iterable[Callable[[int], Effect]]
) -> Faulty:
    """The lake with files that cannot be read, each for the next of some reasons."""
    sizes = {path.removeprefix(f"{LAKE}/"): len(world.bucket.read(path)) for path in paths}
    return Faulty(
        world.lake,
        [
            StorageFault(effect(size), _READ, key.__eq__)
            for (key, size), effect in zip(sizes.items(), effects, strict=False)
        ],
    )


def _is_versioned(table: EngineTable) -> bool:
    """Whether metadata is named by a number, as it is without a catalog."""
    return table.metadata_path.rpartition("/")[2].startswith("v")


def _incomplete(document: PlanDocument) -> set[str]:
    return {root.name for root in document.incomplete_roots}


def test_without_faults_exactly_the_orphans_go(swept: Swept) -> None:
    made = plan(swept.world)
    assert deletes(swept.world, made) == swept.orphans
    apply(swept.world, made.plan)
    assert swept.world.files() & swept.orphans == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_root_that_cannot_be_read_for_the_first_time_keeps_all(swept: Swept, fault: str) -> None:
    table = swept.tables[0]
    store = _faulty(swept.world, [table.metadata_path], [FAULTS[fault]])
    made = swept.with_lake(store).plan()
    assert table.name in _incomplete(made)
    assert deletes(swept.world, made) == set()


def test_each_file_that_cannot_be_read_keeps_the_folders_of_its_tables(swept: Swept) -> None:
    """A file that several tables share, or one in several rounds, breaks them all.

    Each file fails once, for one reason; marking alone is tested with all reasons for each.
    """
    plan(swept.world)
    effects = cycle(FAULTS.values())
    for files in swept.rounds():
        swept.forget_marks()
        made = swept.with_lake(_faulty(swept.world, files, effects)).plan()
        found = deletes(swept.world, made)
        broken = {table.name for table in files.values()}
        assert _incomplete(made) >= broken
        assert found <= swept.orphans
        folders = tuple(
            folder_identity(table.metadata_path.partition("/metadata/")[0])
            for table in swept.tables
            if table.name in _incomplete(made)
        )
        assert not [path for path in found if path.startswith(folders)]


def test_files_that_cannot_be_read_after_the_plan_change_nothing(swept: Swept) -> None:
    """What did not move is not read again."""
    live = swept.world.files() - swept.orphans
    made = plan(swept.world)
    files = {path: table for path, table in swept.read_files() if not _is_versioned(table)}
    process = swept.with_lake(_faulty(swept.world, files, repeat(FAULTS["denied"])))
    process.apply(made.plan)
    assert swept.world.files() == live


def test_metadata_whose_name_may_be_used_again_has_to_be_read_again(swept: Swept) -> None:
    before = swept.world.files()
    made = plan(swept.world)
    versioned = {table.metadata_path: table for table in swept.tables if _is_versioned(table)}
    process = swept.with_lake(_faulty(swept.world, versioned, repeat(FAULTS["denied"])))
    with pytest.raises(IncompleteError):
        process.apply(made.plan)
    assert swept.world.files() == before


def test_a_listing_that_ends_in_the_middle_makes_no_plan(
    swept: Swept, engine_lake: EngineLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", 50)
    local = LocalStore(str(engine_lake.bucket), f"{LAKE}/")
    for page in range(9):
        cut = StorageFault(fail(UnavailableError), frozenset({"list"}), skip=page)
        with pytest.raises(UnavailableError):
            swept.with_lake(Faulty(local, [cut])).plan()
    assert not [key for key in swept.world.plans.objects if key.endswith("plan.json")]


def _stormy(store: ObjectStore, seed: int) -> Retrying:
    """Every third call fails, in one way or another, and is tried again."""
    random, clock = Random(seed), ManualClock(NOON)
    faults = [
        StorageFault(effect, skip=random.randrange(3 * n, 3 * n + 3), times=1)
        for n in range(400)
        for effect in [random.choice([fail(ThrottledError), fail(UnavailableError), lose])]
    ]
    return Retrying(Faulty(store, faults), clock, random)


def test_a_storm_of_errors_changes_neither_plan_nor_apply(swept: Swept) -> None:
    live = swept.world.files() - swept.orphans
    made = swept.with_lake(_stormy(swept.world.lake, 1)).plan()
    assert deletes(swept.world, made) == swept.orphans
    applied = swept.with_lake(_stormy(swept.world.lake, 2)).apply(made.plan)
    assert swept.world.files() == live
    assert applied.report.failed == 0


def test_a_storm_that_does_not_end_deletes_nothing_wrong(swept: Swept) -> None:
    made = plan(swept.world)
    storm = Faulty(
        swept.world.lake, [StorageFault(fail(ThrottledError), frozenset({"delete"}), skip=5)]
    )
    applied = swept.with_lake(storm).apply(made.plan)
    assert applied.report.deleted + applied.report.failed == len(swept.orphans)
    assert applied.report.failed == len(swept.world.files() & swept.orphans) > 0
