"""Processes with caches over one database that fails: no reader goes back in time.

Each process has several threads. They run one at a time, and before and after each call to the
database another one may go on. What Hypothesis draws decides which, so a failing history can be
repeated and made small. The database notes every state that a reference ever had, so it can be said
of each answer whether it was allowed.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.clock import ManualClock
from lakesweep.errors import StoreError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.cache.cache import REFERENCE_SECONDS, StoreCache
from lakesweep.store.cache.caching_backend import CachingBackend, InvalidatingBackend
from lakesweep.store.cache.peers import Message
from lakesweep.store.commits.references import moved
from tests.moments import NOON
from tests.random_tests import examples

Answer = TypeVar("Answer")

_PROCESSES = 2
_ALL_THREADS = 4
_ACTIONS = 20
_NAME = "main"
_OBJECTS = 3

#: An action: of which thread, what, and with which object or for how long.
Action = tuple[int, str, int]

_FAULTS = (
    *[BackendFault.NONE] * 10,
    BackendFault.REFUSE,
    BackendFault.LOSE_ANSWER,
    BackendFault.LOSE_REQUEST,
    BackendFault.LATE,
)
#: Each byte is a choice: it is drawn quickly, and made small well.
_CHOICES = st.binary(min_size=150, max_size=150)


class Stopped(BaseException):
    """Another thread has failed."""


class Baton:
    """Lets one thread run at a time, and says which."""

    def __init__(self) -> None:
        self._back = threading.Semaphore(0)
        self._turns: list[threading.Semaphore] = []
        self._running = 0
        self._waiting: set[int] = set()
        self._failure: BaseException | None = None

    def run(self, works: Sequence[Callable[[], None]], turns: Iterable[int]) -> None:
        """Do all works, going on with the next of `turns` whenever one of them pauses."""
        self._turns = [threading.Semaphore(0) for _ in works]
        self._waiting = set(range(len(works)))
        threads = [threading.Thread(target=self._work, args=each) for each in enumerate(works)]
        for thread in threads:
            thread.start()
        following = chain(turns, repeat(0))
        while self._waiting:
            self._running = sorted(self._waiting)[next(following) % len(self._waiting)]
            self._turns[self._running].release()
            self._back.acquire()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def pause(self) -> None:
        """Let another thread go on, perhaps."""
        number = self._running
        self._back.release()
        self._turns[number].acquire()
        if self._failure is not None:
            raise Stopped

    def _work(self, number: int, work: Callable[[], None]) -> None:
        self._turns[number].acquire()
        try:
            work()
        except Stopped:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            self._waiting.discard(number)
            self._back.release()


class NotingBackend(BackendWrapper):
    """Notes each state that the reference had, None for none, and since when."""

    def __init__(self, backend: Backend, clock: ManualClock) -> None:
        super().__init__(backend)
        self._clock = clock
        self.states: list[tuple[Reference | None, float]] = [(None, clock.monotonic())]

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        return self._note(super().insert_reference(realm, reference), reference)

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        for reference in references:
            self.insert_reference(realm, reference)

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        return self._note(super().update_reference(realm, new, expected), new)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        return self._note(super().delete_reference(realm, expected), None)

    def _note(self, done: bool, state: Reference | None) -> bool:
        if done:
            self.states.append((state, self._clock.monotonic()))
        return done


class InterruptedBackend(BackendWrapper):
    """Lets others go on before and after each call."""

    def __init__(self, backend: Backend, baton: Baton) -> None:
        super().__init__(backend)
        self._baton = baton

    def _enter(self, realm: str) -> None:
        self._baton.pause()

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        return self._leave(super().fetch_references(realm, names))

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        return self._leave(super().update_reference(realm, new, expected))

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        return self._leave(super().commit(realm, rows, new, expected))

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        return self._leave(super().insert_reference(realm, reference))

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        return self._leave(super().delete_reference(realm, expected))

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        return self._leave(super().fetch(realm, keys))

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        self._leave(super().write(realm, rows))

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        self._leave(super().delete(realm, keys))

    def _leave(self, answer: Answer) -> Answer:
        self._baton.pause()
        return answer


@dataclass(slots=True)
class Process:
    """A cache, and how far in the history of the reference somebody in this process was."""

    world: World
    cache: StoreCache = field(init=False)
    cached: CachingBackend = field(init=False)
    telling: InvalidatingBackend = field(init=False)
    known: int = 0
    removed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cache = StoreCache(6_000, self.world.clock, peers=self.world)
        self.cached = CachingBackend(self.world.backend, self.cache)
        self.telling = InvalidatingBackend(self.world.backend, self.cache)

    def look(self) -> None:
        known, began = self.known, self.world.clock.monotonic()
        found = self.cached.fetch_references("acme", [_NAME]).get(_NAME)
        self._check(found, known, began - REFERENCE_SECONDS)

    def look_afresh(self) -> Reference | None:
        now = len(self.world.database.states) - 1
        known, began = max(self.known, now), self.world.clock.monotonic()
        found = self.telling.fetch_references("acme", [_NAME]).get(_NAME)
        self._check(found, known, began)
        return found

    def swap(self) -> None:
        expected = self.look_afresh()
        if expected is None:
            return
        new = moved(expected, self.world.next_number())
        if self.world.number % 2:
            swapped = self.telling.update_reference("acme", new, expected)
        else:
            rows = [_row(_OBJECTS + self.world.number)]
            swapped = self.telling.commit("acme", rows, new, expected)
        if swapped:
            self._learn(self.world.place_of(new))

    def create(self) -> None:
        new = self._new()
        if self.telling.insert_reference("acme", new):
            self._learn(self.world.place_of(new))

    def create_many(self) -> None:
        self.telling.insert_references("acme", [self._new()])

    def delete(self) -> None:
        expected = self.look_afresh()
        if expected is not None and self.telling.delete_reference("acme", expected):
            self._learn(self.world.place_of(expected) + 1)

    def read(self, number: int) -> None:
        written, removed = number in self.world.written, number in self.removed
        begun = self.world.begun[number]
        row = self.cached.fetch("acme", [RowKey(number)]).get(RowKey(number))
        assert row is None or row == _row(number)
        if removed and begun == self.world.begun[number]:
            assert row is None
        if written and number in self.world.written:
            assert row is not None

    def write(self, number: int) -> None:
        self.world.begun[number] += 1
        self.world.unsure[number] += 1  # it may take effect at any time from now on
        for process in self.world.processes:
            process.removed.discard(number)
        self.telling.write("acme", [_row(number)])
        self.world.unsure[number] -= 1
        if number not in self.world.gone:
            self.world.written.add(number)

    def remove(self, number: int) -> None:
        self.world.gone.add(number)
        self.world.written.discard(number)
        begun, alone = self.world.begun[number], not self.world.unsure[number]
        self.telling.delete("acme", [RowKey(number)])
        if alone and begun == self.world.begun[number]:
            self.removed.add(number)

    def _learn(self, place: int) -> None:
        self.known = max(self.known, place)

    def _new(self) -> Reference:
        # Clocks of different machines: what is created later may look older.
        return Reference(_NAME, None, 0, self.world.next_number() * 619 % 1_000)

    def _check(self, found: Reference | None, known: int, since: float) -> None:
        """The answer was true at some time since then, and not before what was known."""
        states = self.world.database.states
        ends = [end for _, end in states[1:]] + [float("inf")]
        allowed = [
            place
            for place, (state, _) in enumerate(states)
            if state == found and place >= known and ends[place] >= since
        ]
        assert allowed, (found, known, since, states)
        self._learn(allowed[0])


@dataclass(slots=True)
class World:
    """Processes over one database."""

    faults: deque[BackendFault]
    baton: Baton
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOON))
    database: NotingBackend = field(init=False)
    backend: Backend = field(init=False)
    processes: list[Process] = field(init=False)
    messages: deque[Message] = field(default_factory=deque)
    written: set[int] = field(default_factory=set)
    begun: Counter[int] = field(default_factory=Counter)
    unsure: Counter[int] = field(default_factory=Counter)
    gone: set[int] = field(default_factory=set)
    number: int = 0

    def __post_init__(self) -> None:
        self.database = NotingBackend(MemoryBackend(), self.clock)
        self.database.insert_reference("acme", Reference(_NAME, None, 0, 5_000))
        faulty = FaultyBackend(self.database, self._fault, self.clock)
        self.backend = InterruptedBackend(faulty, self.baton)
        self.processes = [Process(self) for _ in range(_PROCESSES)]

    def publish(self, messages: Collection[Message]) -> None:
        self.messages.extend(messages)

    def run(self, thread: int, actions: Iterable[Action]) -> None:
        process = self.processes[thread % _PROCESSES]
        for doer, kind, argument in actions:
            if doer == thread:
                with suppress(StoreError):  # nobody learned anything
                    self._do(process, kind, argument)

    def _fault(self, _method: str) -> BackendFault:
        return self.faults.popleft() if self.faults else BackendFault.NONE

    def _do(self, process: Process, kind: str, argument: int) -> None:
        acts: dict[str, Callable[[], object]] = {
            "look": process.look,
            "afresh": process.look_afresh,
            "swap": process.swap,
            "create": process.create,
            "create_many": process.create_many,
            "delete": process.delete,
            "read": lambda: process.read(argument),
            "write": lambda: process.write(argument),
            "remove": lambda: process.remove(argument),
            "wait": lambda: self.clock.sleep(argument * 0.6 * REFERENCE_SECONDS),
            "tell": lambda: self._tell(process),
            "forget": lambda: process.cache.forget_realm("acme"),
            "fill": lambda: process.cached.write("other", [_row(self.next_number())]),
        }
        acts[kind]()

    def _tell(self, process: Process) -> None:
        if self.messages:
            process.cache.accept(self.messages.popleft())

    def place_of(self, reference: Reference) -> int:
        return [state for state, _ in self.database.states].index(reference)

    def next_number(self) -> int:
        self.number += 1
        return self.number


def _row(number: int) -> ObjectRow:
    return ObjectRow(number, 0, "paper", 0, None, bytes([number % 256]) * 1_000)


def _run(kinds: str, choices: bytes) -> None:
    """Let all threads do these kinds of things, as the choices say."""
    names, rest = kinds.split(), iter(choices)
    actions = [
        (next(rest) % _ALL_THREADS, names[next(rest) % len(names)], next(rest) % _OBJECTS)
        for _ in range(_ACTIONS)
    ]
    faults = deque(_FAULTS[next(rest) % len(_FAULTS)] for _ in range(_ACTIONS))
    baton = Baton()
    world = World(faults, baton)
    baton.run([partial(world.run, thread, actions) for thread in range(_ALL_THREADS)], rest)


_often = examples(100)


@_often
@given(_CHOICES)
def test_no_reader_sees_a_reference_go_back(choices: bytes) -> None:
    _run("look look afresh swap forget", choices)


@_often
@given(_CHOICES)
def test_no_reader_sees_a_reference_of_before_it_was_created_again(choices: bytes) -> None:
    _run("look look look afresh swap create create_many delete tell", choices)


@_often
@given(_CHOICES)
def test_no_reader_sees_a_reference_as_it_was_too_long_ago(choices: bytes) -> None:
    _run("look look swap wait fill tell", choices)


@_often
@given(_CHOICES)
def test_no_reader_sees_another_object_or_one_that_was_removed(choices: bytes) -> None:
    _run("read read write remove fill tell", choices)
