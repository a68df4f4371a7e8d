"""Two lakes of one configuration whose tables take up each other's files, in any order.

Plans leave roots of the other lake unread that cannot reach into their own. Whatever was known of
a root, and whatever happened to it since: no file that any table references ever goes, in either
lake. Files move between lakes only by what tables say of them, which is what a plan cannot see in
a listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakesweep.config import LakeSection, PinnedRoot
from lakesweep.errors import IncompleteError, RefusedError
from lakesweep.runs.records import RunKind
from lakesweep.runs.sessions import run_session
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.sweep.roots.root import RootProblem, RootRow, RootSource
from tests.random_tests import Machine, examples
from tests.sweeps import GRACE, LAKE, PLANS, SMALL, Gate, GatedSource, Process, World

_ALL = (*SMALL, "incomplete", "stale-plan", "roots-gone", "missing")
_LAKES = ("a", "b")
_NUMBERS = st.integers(0, 11)
_LAKE = st.sampled_from(_LAKES)


class LakeSource(GatedSource):
    """The tables of one lake: those whose names begin with its own."""

    def __init__(self, world: World, lake: str, down: set[str]) -> None:
        super().__init__(world.catalog, Gate(), name=f"catalog {lake}")
        self._lake = lake
        self._down = down

    def collect(self) -> Iterator[RootRow | RootProblem]:
        if self._lake in self._down:
            yield RootProblem(self.name, "does not answer")
            return
        yield from (row for row in super().collect() if str(row.name).startswith(self._lake))


class Neighbours(Machine):
    """The histories of two lakes in one bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.down: set[str] = set()
        self.unread = 0
        self._process = Process(self.world)
        self._numbers = iter(range(1, 10_000))

    @property
    def stores(self) -> Stores:
        return self._process.stores

    @initialize(first=_LAKE)
    def begin(self, first: str) -> None:
        """Both lakes have a table and an orphan, and are known to each other."""
        for lake in _LAKES:
            self.create(lake, lake)
            self.append(lake, 0)
        for lake in (first, "b" if first == "a" else "a"):
            self.sweep(lake, None)
            self.leave_orphan(lake)

    @rule(lake=_LAKE, place=_LAKE)
    def create(self, lake: str, place: str) -> None:
        """A table of a lake's catalog, which may have its files in the other lake."""
        name = f"{lake}{next(self._numbers)}"
        self.world.create(name, f"{place}/{name}")

    @rule(lake=_LAKE, number=_NUMBERS)
    def append(self, lake: str, number: int) -> None:
        for name in self._pick(self._tables(lake), number):
            location = self.world.table(name).document["location"]
            path = f"{location}/data/{next(self._numbers):03}.parquet"
            self.world.append(name, self.world.put(path))

    @rule(lake=_LAKE, number=_NUMBERS, file=_NUMBERS)
    def take_up(self, lake: str, number: int, file: int) -> None:
        """A table references a file of the other lake, whether or not another one does."""
        other = "b" if lake == "a" else "a"
        there = sorted(path for path in self.world.files() if path.startswith(f"{LAKE}/{other}/"))
        orphans = [path for path in there if "/orphans/" in path]
        data = orphans or [path for path in there if path.endswith(".parquet")]
        for name in self._pick(self._tables(lake), number):
            for path in self._pick(data, file):
                self.world.append(name, path)

    @rule(lake=_LAKE)
    def leave_orphan(self, lake: str) -> None:
        self.world.put(f"{LAKE}/{lake}/orphans/data/{next(self._numbers):03}.parquet")

    @rule(lake=_LAKE, number=_NUMBERS)
    def expire(self, lake: str, number: int) -> None:
        for name in self._pick(self._tables(lake), number):
            if self.world.table(name).document["snapshots"]:
                self.world.expire(name)

    @rule(lake=_LAKE, number=_NUMBERS)
    def drop(self, lake: str, number: int) -> None:
        for name in self._pick(self._tables(lake), number):
            del self.world.catalog.pointers[name]

    @rule(lake=_LAKE)
    def go_down_or_up(self, lake: str) -> None:
        self.down ^= {lake}

    @rule(number=_NUMBERS)
    def deny(self, number: int) -> None:
        """The metadata of a table cannot be read for a while."""
        if self.world.denied:
            self.world.denied.clear()
            return
        self.world.denied |= {*self._pick(sorted(self.world.catalog.pointers.values()), number)}

    @rule(lake=_LAKE, between=st.none() | st.tuples(_LAKE, _NUMBERS, _NUMBERS))
    def sweep(self, lake: str, between: tuple[str, int, int] | None) -> None:
        """Plan a lake and apply the plan; in between a table may take up a file."""
        self.world.age()
        with suppress(IncompleteError, RefusedError):
            plan = self._plan(lake)
            self.unread += plan.spec["roots_unread"]
            if between is not None:
                self.take_up(*between)
            self._apply(lake, plan)

    @invariant()
    def nothing_live_is_gone(self) -> None:
        live = self.world.live() if not self.world.denied else set()
        assert live <= self.world.files(), live - self.world.files()

    def teardown(self) -> None:
        self.world.denied.clear()
        self.down.clear()
        self.nothing_live_is_gone()
        self.world.age()
        for lake in _LAKES:
            with suppress(IncompleteError):  # a catalog that listed tables and lists none now
                self._apply(lake, self._plan(lake))
        self.nothing_live_is_gone()

    def _tables(self, lake: str) -> list[str]:
        return sorted(name for name in self.world.catalog.pointers if name.startswith(lake))

    def _pick(self, found: Sequence[str], number: int) -> list[str]:
        return [found[number % len(found)]] if found else []

    def _lake(self, name: str) -> Lake:
        other = "b" if name == "a" else "a"
        section = LakeSection(locations=(f"{LAKE}/{name}",), unknown="delete", roots=())
        beside = (PinnedRoot(type="pinned", file="stands for the roots of the other lake"),)
        return Lake(
            name,
            section,
            f"{PLANS}/{name}",
            neighbours={other: (f"{LAKE}/{other}",)},
            roots_of_others=beside,
        )

    def _sources(self, _: Stores, lake: Lake, __: object) -> list[RootSource]:
        names = _LAKES if lake.roots_of_others else (lake.name,)
        return [LakeSource(self.world, name, self.down) for name in names]

    def _plan(self, name: str) -> PlanDocument:
        runs, clock = self._process.runs, self.world.clock
        engine = LocalSweepEngine(self.stores)
        planner = Planner(self.stores, engine, runs, clock, sources=self._sources)
        with run_session(runs, name, RunKind.PLAN, spec={}) as session:
            order = PlanRequest(self._lake(name), GRACE)
            return planner.plan(order, session.started, session.lease)

    def _apply(self, name: str, plan: PlanDocument) -> None:
        runs, clock = self._process.runs, self.world.clock
        engine = LocalSweepEngine(self.stores)
        applier = Applier(self.stores, engine, runs, clock, sources=self._sources)
        order = ApplyRequest(
            runs.plan(plan.plan),
            self._lake(name),
            DeleteRemoval(),
            OUTCOME_SCHEMA,
            DeleteRate(),
            _ALL,
            batch_rows=4,
        )
        document = load_applicable_plan(self.stores, runs, order, clock.now())
        with run_session(runs, name, RunKind.APPLY, plan=plan.plan, spec={}) as session:
            applier.apply(order, document, session)


TestNeighbours = Neighbours.TestCase
TestNeighbours.settings = examples(8, steps=14)


def test_a_root_that_cannot_reach_into_a_lake_is_not_read_again() -> None:
    """What the histories are about does happen in them."""
    lakes = Neighbours()
    lakes.create("a", "a")
    lakes.append("a", 0)
    lakes.create("b", "b")
    lakes.append("b", 0)
    lakes.leave_orphan("b")
    lakes.sweep("a", None)
    lakes.deny(1)  # the metadata of the table in b
    lakes.deny(1)
    lakes.sweep("b", None)
    assert lakes.unread == 1
    lakes.nothing_live_is_gone()


def test_a_root_that_took_up_a_file_since_it_was_read_keeps_it() -> None:
    lakes = Neighbours()
    lakes.create("a", "a")
    lakes.append("a", 0)
    lakes.create("b", "b")
    lakes.append("b", 0)
    lakes.sweep("a", None)
    lakes.sweep("b", None)
    lakes.leave_orphan("b")
    orphan = max(lakes.world.files(), key=lambda path: "/orphans/" in path)
    lakes.world.append(lakes._tables("a")[0], orphan)
    lakes.sweep("b", None)
    assert orphan in lakes.world.files()
    lakes.sweep("a", None)
    lakes.sweep("b", None)
    assert orphan in lakes.world.files()
