"""Several writers commit over a database that fails in every way; nothing is lost or done twice.

Each writer stands for a process. At any call to the database another writer may get in between
with a whole commit of its own, which may be interrupted in the same way. What Hypothesis draws
decides all of it, so a failing history can be repeated and made small.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.clock import ManualClock
from lakesweep.errors import StoreError, UnknownOutcomeError
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.cache.cache import StoreCache
from lakesweep.store.cache.caching_backend import CachingBackend, InvalidatingBackend
from lakesweep.store.commits.commit import Commit
from lakesweep.store.objects.objects import Stored
from tests.moments import NOON
from tests.random_tests import examples
from tests.stores import CountingIds, Note, Paper, Writer, add, open_writer

_WRITERS = 3
_DEPTH = 3

#: What befalls a call: a fault, and the writer that gets in before it, if any.
Event = tuple[BackendFault, int | None]

#: Half of the calls go well, and nobody gets in before two of three.
_FAULTS = (*[BackendFault.NONE] * len(BackendFault), *BackendFault)
_INTRUDERS = (*[None] * 2 * _WRITERS, *range(_WRITERS))
_KINDS = [(fault, intruder) for fault in _FAULTS for intruder in _INTRUDERS]


def _events(drawn: bytes) -> list[Event]:
    return [_KINDS[byte % len(_KINDS)] for byte in drawn]


#: A byte an event, which Hypothesis draws sooner than a list of tuples.
_EVENTS = st.binary(max_size=150).map(_events)


@dataclass(slots=True)
class Deed:
    """One call of commit: when it began and ended, and what came of it."""

    name: str
    began: int
    ended: int = 0
    outcome: str = ""
    head: Stored[Note] | None = None


@dataclass(slots=True)
class World:
    """Writers over one database, and what they did."""

    events: deque[Event]
    patience_seconds: float
    cached: bool = False
    memory: MemoryBackend = field(default_factory=MemoryBackend)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOON))
    deeds: list[Deed] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    ticks: int = 0

    def __post_init__(self) -> None:
        self.observer = open_writer(self.memory, clock=self.clock)
        self.observer.references.create("main")
        self.backend = FaultyBackend(self.memory, self._choose, self.clock)
        self.writers = [self._open(number) for number in range(_WRITERS)]

    observer: Writer = field(init=False)
    backend: FaultyBackend = field(init=False)
    writers: list[Writer] = field(init=False)

    def act(self, number: int) -> None:
        """Let a writer commit a new deed, unless it is in the middle of one."""
        if number in self.busy:
            return
        deed = Deed(f"{number}:{len(self.deeds)}", self._tick())
        self.deeds.append(deed)
        self.busy.add(number)
        try:
            committed = self.writers[number].commits.commit("main", Note, add(deed.name))
            deed.outcome, deed.head = "done", committed.head
        except UnknownOutcomeError:
            deed.outcome = "unknown"
        except StoreError:
            deed.outcome = "not done"
        finally:
            self.busy.discard(number)
            deed.ended = self._tick()

    def _choose(self, _method: str) -> BackendFault:
        if not self.events:
            return BackendFault.NONE
        fault, intruder = self.events.popleft()
        if intruder is not None and len(self.busy) < _DEPTH:
            self.act(intruder)
        return fault

    def _open(self, number: int) -> Writer:
        cache = StoreCache(20_000, self.clock)
        return open_writer(
            InvalidatingBackend(self.backend, cache) if self.cached else self.backend,
            ids=CountingIds(1_000 + number, _WRITERS),
            clock=self.clock,
            patience_seconds=self.patience_seconds,
            cached=CachingBackend(self.backend, cache) if self.cached else None,
        )

    def _tick(self) -> int:
        self.ticks += 1
        return self.ticks


def _name(commit: Stored[Commit]) -> str:
    return commit.value.changes[0].key.decode()


def check(world: World) -> None:
    """Compare what the writers were told with what the log says."""
    log = list(world.observer.log.oldest_first("main"))
    assert list(world.observer.log.newest_first("main")) == log[::-1]
    names = [_name(commit) for commit in log]
    _check_outcomes(world, names)
    _check_order(world, names)
    _check_states(world, log, names)


def _check_outcomes(world: World, names: list[str]) -> None:
    possible = {"done": {1}, "not done": {0}, "unknown": {0, 1}}
    for deed in world.deeds:
        assert names.count(deed.name) in possible[deed.outcome], deed
    assert set(names) <= {deed.name for deed in world.deeds}


def _check_order(world: World, names: list[str]) -> None:
    """A commit that was over before another one began comes before it."""
    done = [deed for deed in world.deeds if deed.name in names]
    for first, second in combinations(done, 2):
        if first.outcome == "done" and first.ended < second.began:
            assert names.index(first.name) < names.index(second.name)


def _check_states(world: World, log: list[Stored[Commit]], names: list[str]) -> None:
    """Each commit builds on the one before, and all that it needs is there."""
    ids = [commit.id for commit in log]
    for place, commit in enumerate(log):
        assert isinstance(commit.value, Note)
        assert commit.value.seq == place + 1
        assert commit.value.tail == tuple(reversed(ids[max(0, place - 20) : place]))
        assert list(commit.value.done) == names[: place + 1]
        papers = world.observer.objects.fetch_many(commit.value.papers, Paper)
        assert [paper and paper.value.text for paper in papers] == names[: place + 1]
    for deed in world.deeds:
        if deed.head is not None:
            told = log[names.index(deed.name)]
            assert (told.id, told.value) == (deed.head.id, deed.head.value)


@examples(200)
@given(
    _EVENTS,
    st.lists(st.integers(0, _WRITERS - 1), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_no_commit_is_lost_or_done_twice(
    events: list[Event], actors: list[int], hasty: bool, cached: bool
) -> None:
    world = World(deque(events), patience_seconds=0.005 if hasty else 60.0, cached=cached)
    for actor in actors:
        world.act(actor)
    world.backend.land_late_writes()
    check(world)


@examples(40)
@given(st.lists(st.tuples(st.just(BackendFault.NONE), st.integers(0, _WRITERS - 1)), max_size=100))
def test_without_faults_every_commit_is_done_and_nothing_is_left_behind(
    events: list[Event],
) -> None:
    world = World(deque(events), patience_seconds=60.0)
    world.act(0)
    check(world)
    assert {deed.outcome for deed in world.deeds} == {"done"}
    assert len(list(world.memory.scan_rows("acme"))) == 2 * len(world.deeds)
