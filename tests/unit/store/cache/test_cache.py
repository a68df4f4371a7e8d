"""Each rule of the cache. Two caches over one database stand for two processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import StoreError, UnknownOutcomeError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.cache.cache import REFERENCE_SECONDS, StoreCache
from lakesweep.store.cache.caching_backend import CachingBackend, InvalidatingBackend
from lakesweep.store.cache.peers import Message, RealmGone, ReferenceMoved, RowsGone
from lakesweep.store.commits.references import moved
from lakesweep.store.objects.links import Link
from tests.asked_backend import AskedBackend
from tests.late_backend import LateBackend
from tests.moments import NOON

MAIN = Reference("main", 7, 3, 1_000, (6, 5))


class Process:
    """What one process has: a cache, a view that asks it, and one that only tells it."""

    def __init__(
        self,
        backend: Backend | None = None,
        clock: ManualClock | None = None,
        *,
        max_bytes: int = 2**20,
        reference_seconds: float = REFERENCE_SECONDS,
    ) -> None:
        self.clock = clock or ManualClock(NOON)
        self.sent: list[Message] = []
        self.database = AskedBackend(backend or MemoryBackend())
        self.late = LateBackend(self.database)
        self.cache = StoreCache(
            max_bytes, self.clock, reference_seconds=reference_seconds, peers=self
        )
        self.cached = CachingBackend(self.late, self.cache)
        self.invalidating = InvalidatingBackend(self.late, self.cache)

    def publish(self, messages: Sequence[Message]) -> None:
        self.sent.extend(messages)

    def row(self, number: int) -> ObjectRow | None:
        return self.cached.fetch("acme", [RowKey(number)]).get(RowKey(number))

    def look(self, name: str = "main") -> Reference | None:
        """The reference as it was lately."""
        return self.cached.fetch_references("acme", [name]).get(name)

    def look_afresh(self, name: str = "main") -> Reference | None:
        return self.invalidating.fetch_references("acme", [name]).get(name)

    def swap(self, expected: Reference, pointer: int) -> Reference:
        new = moved(expected, pointer)
        assert self.invalidating.update_reference("acme", new, expected)
        return new

    def questions(self) -> int:
        """How often the database was asked since the last time."""
        asked = self.database.asked["references"] + self.database.asked["objects"]
        self.database.asked.clear()
        return asked


def _row(number: int, value: bytes = b"value", *, token: int | None = None) -> ObjectRow:
    return ObjectRow(number, 0, "paper", 1_000, token, value)


def _two() -> tuple[Process, Process]:
    """Two processes over one database with a reference."""
    memory, clock = MemoryBackend(), ManualClock(NOON)
    memory.insert_reference("acme", MAIN)
    return Process(memory, clock), Process(memory, clock)


# --- objects


def test_an_object_is_read_once() -> None:
    process = Process()
    process.database.write("acme", [_row(1), _row(2)])
    for _ in range(3):
        assert process.row(1) == _row(1)
    assert process.questions() == 1
    keys = [RowKey(number) for number in (1, 2, 3)]
    assert process.cached.fetch("acme", keys) == {keys[0]: _row(1), keys[1]: _row(2)}
    assert process.database.asked["rows"] == 2


def test_what_was_written_is_not_read_at_all() -> None:
    process = Process()
    process.cached.write("acme", [_row(1)])
    assert process.row(1) == _row(1)
    assert process.questions() == 0


def test_ids_come_back_as_the_database_would_give_them() -> None:
    process = Process()
    process.cached.write("acme", [_row(Link(1))])
    found = process.row(1)
    assert found is not None
    assert type(found.id) is int


def test_realms_and_parts_are_told_apart() -> None:
    process = Process()
    rows = [_row(1, b"first"), _row(1, b"second")._replace(part=1)]
    process.cached.write("acme", rows)
    process.cached.write("other", [_row(1, b"other")])
    assert process.row(1) == rows[0]
    keys = [RowKey(1), RowKey(1, 1)]
    assert process.cached.fetch("other", keys) == {keys[0]: _row(1, b"other")}


def test_a_row_with_a_token_is_always_asked_for() -> None:
    process = Process()
    assert process.cached.insert_row("acme", _row(1, token=5))
    for _ in range(2):
        assert process.row(1) == _row(1, token=5)
    assert process.questions() == 2


@pytest.mark.parametrize("change", ["insert_row", "update_row", "delete_row"])
def test_conditional_writes_let_go_of_what_was_remembered(change: str) -> None:
    process = Process()
    process.cached.write("acme", [_row(1)])
    process.database.write("acme", [_row(1, b"new", token=5)])
    match change:
        case "insert_row":
            process.cached.insert_row("acme", _row(1, token=9))
        case "update_row":
            process.cached.update_row("acme", _row(1, b"newer", token=6), 5)
        case _:
            process.cached.delete_row("acme", RowKey(1), 5)
    process.row(1)
    assert process.questions() == 1


def test_a_missing_object_is_looked_for_again() -> None:
    process = Process()
    assert process.row(1) is None
    process.database.write("acme", [_row(1)])
    assert process.row(1) == _row(1)


def test_a_deleted_object_is_gone() -> None:
    process = Process()
    process.cached.write("acme", [_row(1)])
    process.cached.delete("acme", [RowKey(1)])
    assert process.row(1) is None


def test_a_slow_reader_does_not_bring_back_what_was_deleted() -> None:
    process = Process()
    process.database.write("acme", [_row(1)])
    process.late.meanwhile = lambda: process.invalidating.delete("acme", [RowKey(1)])
    assert process.row(1) == _row(1)
    assert process.row(1) is None


def test_a_slow_reader_does_not_bring_back_what_was_replaced() -> None:
    process = Process()
    process.database.write("acme", [_row(1)])
    process.late.meanwhile = lambda: process.invalidating.write("acme", [_row(1, b"new")])
    process.row(1)
    assert process.row(1) == _row(1, b"new")


def test_two_readers_of_one_object_remember_it() -> None:
    process = Process()
    process.database.write("acme", [_row(1)])
    process.late.meanwhile = lambda: process.row(1)
    process.row(1)
    process.questions()
    assert process.row(1) == _row(1)
    assert process.questions() == 0


@pytest.mark.parametrize(
    "fault", [BackendFault.REFUSE, BackendFault.LOSE_ANSWER, BackendFault.LOSE_REQUEST]
)
@pytest.mark.parametrize("method", ["write", "delete"])
def test_after_a_failed_write_the_database_is_asked(method: str, fault: BackendFault) -> None:
    clock, memory = ManualClock(NOON), MemoryBackend()
    faulty = FaultyBackend(
        memory, lambda called: fault if called == method else BackendFault.NONE, clock
    )
    process = Process(faulty, clock)
    memory.write("acme", [_row(1, b"old")])
    process.row(1)
    calls: dict[str, Callable[[], None]] = {
        "write": lambda: process.cached.write("acme", [_row(1)]),
        "delete": lambda: process.cached.delete("acme", [RowKey(1)]),
    }
    with pytest.raises(StoreError):
        calls[method]()
    assert process.row(1) == memory.fetch("acme", [RowKey(1)]).get(RowKey(1))


def test_rows_as_they_are_come_past_the_cache() -> None:
    process = Process()
    process.cached.write("acme", [_row(1)])
    process.database.write("acme", [_row(1, b"changed by hand")])
    found = process.invalidating.fetch("acme", [RowKey(1)])
    assert found[RowKey(1)].value == b"changed by hand"


# --- references


def test_a_reference_is_remembered_for_moments() -> None:
    process, other = _two()
    assert process.look() == MAIN
    new = other.swap(MAIN, 8)
    process.clock.sleep(REFERENCE_SECONDS - 0.01)
    assert process.look() == MAIN
    process.clock.sleep(0.01)
    assert process.look() == new
    assert process.questions() == 2


def test_the_moments_begin_before_the_database_is_asked() -> None:
    process, _ = _two()
    process.late.meanwhile = lambda: process.clock.sleep(REFERENCE_SECONDS)
    process.look()
    process.look()
    assert process.questions() == 2


def test_who_wants_to_change_a_reference_always_asks() -> None:
    process, other = _two()
    process.look()
    new = other.swap(MAIN, 8)
    assert process.look_afresh() == new
    assert process.look() == new
    assert process.questions() == 2


def test_the_own_swap_is_seen_at_once() -> None:
    process, _ = _two()
    process.look()
    new = process.swap(MAIN, 8)
    assert process.look() == new
    assert process.questions() == 1


def test_a_lost_swap_lets_the_reference_go() -> None:
    process, other = _two()
    process.look()
    new = other.swap(MAIN, 8)
    assert not process.invalidating.update_reference("acme", moved(MAIN, 9), MAIN)
    assert process.look() == new


@pytest.mark.parametrize(
    "fault", [BackendFault.REFUSE, BackendFault.LOSE_ANSWER, BackendFault.LOSE_REQUEST]
)
def test_a_swap_without_an_answer_lets_the_reference_go(fault: BackendFault) -> None:
    clock, memory = ManualClock(NOON), MemoryBackend()
    memory.insert_reference("acme", MAIN)
    method = "update_reference"
    faulty = FaultyBackend(
        memory, lambda called: fault if called == method else BackendFault.NONE, clock
    )
    process = Process(faulty, clock)
    process.look()
    with pytest.raises(StoreError):
        process.invalidating.update_reference("acme", moved(MAIN, 8), MAIN)
    assert process.look() == memory.fetch_references("acme", ["main"])["main"]


def test_a_commit_is_remembered_with_all_its_rows() -> None:
    process, _ = _two()
    new = moved(MAIN, 8)
    assert process.invalidating.commit("acme", [_row(8), _row(9)], new, MAIN)
    assert (process.look(), process.row(8), process.row(9)) == (new, _row(8), _row(9))
    assert process.questions() == 0
    assert process.sent == [ReferenceMoved("acme", "main", 1_000, 4, 8)]


def test_nothing_of_a_lost_commit_is_remembered() -> None:
    process, other = _two()
    new = other.swap(MAIN, 8)
    assert not process.invalidating.commit("acme", [_row(9)], moved(MAIN, 9), MAIN)
    process.database.delete("acme", [RowKey(9)])
    assert process.row(9) is None
    assert process.look() == new
    assert not process.sent


@pytest.mark.parametrize(
    "fault", [BackendFault.REFUSE, BackendFault.LOSE_ANSWER, BackendFault.LOSE_REQUEST]
)
def test_after_a_commit_without_an_answer_the_database_is_asked(fault: BackendFault) -> None:
    clock, memory = ManualClock(NOON), MemoryBackend()
    memory.insert_reference("acme", MAIN)
    method = "update_reference"
    faulty = FaultyBackend(
        memory, lambda called: fault if called == method else BackendFault.NONE, clock
    )
    process = Process(faulty, clock)
    process.look()
    with pytest.raises(StoreError):
        process.invalidating.commit("acme", [_row(8)], moved(MAIN, 8), MAIN)
    assert process.look() == memory.fetch_references("acme", ["main"])["main"]
    assert process.row(8) == memory.fetch("acme", [RowKey(8)]).get(RowKey(8))


def test_a_slow_reader_does_not_put_an_old_version_back() -> None:
    process, _ = _two()
    process.late.meanwhile = lambda: process.swap(MAIN, 8)
    assert process.look_afresh() == MAIN
    assert process.look() == moved(MAIN, 8)
    assert process.questions() == 1


def test_a_slow_reader_does_not_put_back_what_was_let_go() -> None:
    process, other = _two()

    def swap_and_lose() -> None:
        other.swap(MAIN, 8)
        process.invalidating.update_reference("acme", moved(MAIN, 9), MAIN)

    process.late.meanwhile = swap_and_lose
    process.look_afresh()
    assert process.look() == moved(MAIN, 8)


def test_a_slow_writer_does_not_put_back_what_others_went_beyond() -> None:
    process, other = _two()
    new = moved(MAIN, 8)

    def go_beyond() -> None:
        other.swap(new, 9)
        assert process.look_afresh() == moved(new, 9)

    process.late.meanwhile = go_beyond
    process.swap(MAIN, 8)
    assert process.look() == moved(new, 9)


def test_what_one_slow_reader_saw_is_not_undone_by_a_slower_one() -> None:
    """The first is told to let go what it brings, but somebody has seen it."""
    process, other = _two()
    new = moved(MAIN, 8)

    def second_reader() -> None:
        process.cache.forget_realm("acme")
        process.late.meanwhile = first_reader
        assert process.look_afresh() == MAIN

    def first_reader() -> None:
        other.swap(MAIN, 8)
        process.look_afresh()
        process.cache.forget_realm("acme")

    process.late.meanwhile = second_reader
    process.look_afresh()
    assert process.look() == new


@pytest.mark.parametrize("created_at", [500, 2_000])
def test_a_reference_that_was_created_again_is_seen_whatever_the_clocks_say(
    created_at: int,
) -> None:
    process, other = _two()
    again = Reference("main", 1, 0, created_at)
    process.look()
    other.invalidating.delete_reference("acme", MAIN)
    other.invalidating.insert_reference("acme", again)
    assert process.look_afresh() == again
    assert process.look() == again


@pytest.mark.parametrize("created_at", [500, 2_000])
def test_a_slow_reader_does_not_put_back_a_reference_of_before(created_at: int) -> None:
    process, _ = _two()
    again = Reference("main", 1, 0, created_at)

    def create_again() -> None:
        process.invalidating.delete_reference("acme", MAIN)
        process.invalidating.insert_reference("acme", again)

    process.late.meanwhile = create_again
    assert process.look_afresh() == MAIN
    assert process.look() == again


def test_a_missing_name_is_remembered_for_moments() -> None:
    process, other = _two()
    assert process.look("new") is None
    new = Reference("new", None, 0, 5)
    other.invalidating.insert_reference("acme", new)
    assert process.look("new") is None
    assert process.questions() == 1
    process.clock.sleep(REFERENCE_SECONDS)
    assert process.look("new") == new


@pytest.mark.parametrize("many", [False, True])
def test_a_name_that_was_missing_is_seen_as_soon_as_it_is_created(many: bool) -> None:
    process = Process()
    new = Reference("new", None, 0, 5)
    assert process.look("new") is None
    if many:
        process.invalidating.insert_references("acme", [new])
    else:
        process.invalidating.insert_reference("acme", new)
    assert process.look("new") == new


def test_a_deleted_reference_is_gone() -> None:
    process, _ = _two()
    process.look()
    process.invalidating.delete_reference("acme", MAIN)
    assert process.look() is None


def test_a_database_that_was_put_back_is_believed_after_moments() -> None:
    memory, clock = MemoryBackend(), ManualClock(NOON)
    process = Process(memory, clock)
    memory.insert_reference("acme", moved(MAIN, 8))
    process.look()
    memory.delete_realm("acme")
    memory.insert_reference("acme", MAIN)
    assert process.look_afresh() == MAIN
    assert process.look() == moved(MAIN, 8)
    clock.sleep(REFERENCE_SECONDS)
    assert [process.look(), process.look()] == [MAIN, MAIN]


def test_without_seconds_a_reference_is_not_remembered() -> None:
    process = Process(reference_seconds=0)
    process.invalidating.insert_reference("acme", MAIN)
    process.look()
    process.look()
    assert process.questions() == 2
    assert process.cache.stats().entries == 0


# --- what others say


def test_others_are_told_what_changes() -> None:
    process = Process()
    new = moved(MAIN, 8)
    process.invalidating.insert_reference("acme", MAIN)
    process.invalidating.update_reference("acme", new, MAIN)
    process.invalidating.update_reference("acme", new, MAIN)
    process.invalidating.delete_reference("acme", new)
    process.invalidating.write("acme", [_row(1)])
    process.invalidating.delete("acme", [RowKey(number) for number in range(120)])
    process.invalidating.delete_realm("acme")
    assert process.sent[:3] == [
        ReferenceMoved("acme", "main", 1_000, 3, 7),
        ReferenceMoved("acme", "main", 1_000, 4, 8),
        ReferenceMoved("acme", "main", 1_000, 5, None),
    ]
    rows = [message for message in process.sent if isinstance(message, RowsGone)]
    assert [key for message in rows for key in message.keys] == [(id_, 0) for id_ in range(120)]
    assert process.sent[-1] == RealmGone("acme")
    assert len(process.sent) == 3 + len(rows) + 1


def test_others_are_told_of_a_swap_that_may_have_happened() -> None:
    clock = ManualClock(NOON)
    process = Process(
        FaultyBackend(MemoryBackend(), lambda _: BackendFault.LOSE_ANSWER, clock), clock
    )
    with pytest.raises(UnknownOutcomeError):
        process.invalidating.update_reference("acme", moved(MAIN, 8), MAIN)
    assert process.sent == [ReferenceMoved("acme", "main", 1_000, 4, 8)]


def test_who_was_told_of_a_newer_version_asks_the_database() -> None:
    process, other = _two()
    process.look()
    new = other.swap(MAIN, 8)
    process.cache.accept(other.sent[-1])
    assert process.look() == new


def test_messages_that_come_late_change_nothing() -> None:
    process, other = _two()
    new = other.swap(other.swap(MAIN, 8), 9)
    assert process.look() == new
    for message in other.sent:
        process.cache.accept(message)
    process.questions()
    assert process.look() == new
    assert process.questions() == 0


def test_a_reader_that_is_on_its_way_heeds_messages() -> None:
    process, other = _two()

    def swap_and_tell() -> None:
        other.swap(MAIN, 8)
        process.cache.accept(other.sent[-1])

    process.late.meanwhile = swap_and_tell
    assert process.look() == MAIN
    assert process.look() == moved(MAIN, 8)


def test_who_was_told_of_a_deletion_asks_the_database() -> None:
    process, other = _two()
    process.invalidating.write("acme", [_row(1)])
    process.look()
    other.invalidating.delete("acme", [RowKey(1)])
    other.invalidating.delete_reference("acme", MAIN)
    for message in other.sent:
        process.cache.accept(message)
    assert process.look() is None
    assert process.row(1) is None


def test_who_was_told_of_a_creation_asks_the_database() -> None:
    process, other = _two()
    assert process.look("new") is None
    new = Reference("new", None, 0, 5)
    other.invalidating.insert_reference("acme", new)
    process.cache.accept(other.sent[-1])
    assert process.look("new") == new


def test_a_message_that_cannot_be_sent_stops_nobody() -> None:
    class Deaf:
        def publish(self, messages: Sequence[Message]) -> None:
            raise OSError("no route")

    cache = StoreCache(2**20, ManualClock(NOON), peers=Deaf())
    backend = InvalidatingBackend(MemoryBackend(), cache)
    assert backend.insert_reference("acme", MAIN)
    assert cache.stats().unsent == 1


# --- letting go, and room


@pytest.mark.parametrize("how", ["forget", "forget realm", "told", "delete realm"])
def test_everything_of_a_realm_can_be_let_go(how: str) -> None:
    process, _ = _two()
    process.invalidating.write("acme", [_row(1)])
    process.invalidating.write("other", [_row(1)])
    match how:
        case "forget":
            process.cache.forget("acme", [RowKey(1)])
        case "forget realm":
            process.cache.forget_realm("acme")
        case "told":
            process.cache.accept(RealmGone("acme"))
        case _:
            process.invalidating.delete_realm("acme")
    assert process.cache.stats().entries == 1
    process.row(1)
    assert process.questions() == 1


def test_a_slow_reader_brings_nothing_of_a_realm_that_was_let_go() -> None:
    process, _ = _two()
    process.invalidating.write("acme", [_row(1)])
    process.late.meanwhile = lambda: process.invalidating.delete_realm("acme")
    assert process.look() == MAIN
    assert process.look() is None


def test_it_tells_how_it_is_doing() -> None:
    process, _ = _two()
    empty = process.cache.stats()
    assert (empty.entries, empty.max_bytes) == (0, 2**20)
    process.look()
    process.look()
    process.row(1)
    process.invalidating.write("acme", [_row(1)])
    process.row(1)
    stats = process.cache.stats()
    assert (stats.hits, stats.misses, stats.entries) == (2, 2, 2)
    assert empty.bytes < stats.bytes < 3_000 + empty.bytes


def test_threads_share_it_and_it_never_has_more_than_its_bytes() -> None:
    max_bytes = 4 * 2**20
    memory = MemoryBackend()
    process = Process(memory, max_bytes=max_bytes)
    process.cache = StoreCache(max_bytes, SystemClock())
    backend = CachingBackend(memory, process.cache)
    memory.insert_reference("acme", replace(MAIN, version=0))

    def value(number: int) -> bytes:
        return number.to_bytes(2) * (10 * (number % 800))

    def work(seed: int) -> int:
        random, highest, version = Random(seed), 0, 0
        for _ in range(1_500):
            number = int(random.paretovariate(0.3)) % 5_000
            key = RowKey(number)
            if number % 7 == 0:
                backend.delete("acme", [key])
            elif number % 3 == 0:
                backend.write("acme", [_row(number, value(number))])
            found = backend.fetch("acme", [key]).get(key)
            assert found is None or found == _row(number, value(number))
            seen = backend.fetch_references("acme", ["main"])["main"]
            assert seen.version >= version
            version = seen.version
            if number % 11 == 0:
                backend.update_reference("acme", moved(seen, version + 1_000), seen)
            highest = max(highest, process.cache.stats().bytes)
        return highest

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) <= max_bytes
    assert process.cache.stats().bytes > 0.5 * max_bytes
