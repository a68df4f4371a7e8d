from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakesweep.clock import ManualClock, micros
from lakesweep.errors import (
    ContendedError,
    HeadMissingError,
    ReferenceMissingError,
    StoreError,
    UnknownOutcomeError,
    WrongTypeError,
)
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.commits.commit import TAIL_COMMITS, Change, Commit
from lakesweep.store.commits.committer import Attempt
from tests.moments import NOON
from tests.stores import REALM, CountingIds, Note, Paper, Writer, add, open_writer


class Script:
    """Faults for the calls of one method, one after another; none for all others."""

    def __init__(self, method: str, faults: Iterable[BackendFault]) -> None:
        self._method = method
        self._faults = iter(faults)

    def __call__(self, method: str) -> BackendFault:
        return (
            next(self._faults, BackendFault.NONE) if method == self._method else BackendFault.NONE
        )


@pytest.fixture
def memory() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def writer(memory: MemoryBackend) -> Writer:
    writer = open_writer(memory)
    writer.references.create("main")
    return writer


@pytest.fixture
def rival(memory: MemoryBackend, writer: Writer) -> Writer:
    """Another process that commits to the same reference."""
    return open_writer(memory, ids=CountingIds(1_000_000))


def _done(writer: Writer) -> tuple[str, ...]:
    """What the head says, and the log agrees with, and has all its papers."""
    commits = list(writer.log.oldest_first("main"))
    done = tuple(commit.value.changes[0].key.decode() for commit in commits)
    head = writer.objects.fetch(commits[-1].id, Note)
    assert head is not None
    assert head.value.done == done
    papers = writer.objects.fetch_many(head.value.papers, Paper)
    assert tuple(paper.value.text for paper in papers if paper) == done
    return done


def _rows(memory: MemoryBackend) -> int:
    return len(list(memory.scan_rows(REALM)))


def _faulty(
    memory: MemoryBackend, method: str, *faults: BackendFault, patience_seconds: float = 60.0
) -> Writer:
    backend = FaultyBackend(memory, Script(method, faults), ManualClock(NOON))
    ids = CountingIds(1_000)
    return open_writer(backend, ids=ids, patience_seconds=patience_seconds)


def test_the_first_commit_starts_the_log(writer: Writer) -> None:
    committed = writer.commits.commit("main", Note, add("a"), message="why", author="who")
    assert committed.head is not None
    head = committed.head.value
    assert (head.seq, head.tail, head.message, head.author) == (1, (), "why", "who")
    assert head.changes == (Change("add", b"a"),)
    assert head.committed_at == micros(NOON)
    assert (committed.changed, committed.attempts) == (True, 1)


def test_each_commit_names_those_before_it(writer: Writer) -> None:
    ids: list[int] = []
    for number in range(25):
        committed = writer.commits.commit("main", Note, add(str(number)))
        assert committed.head is not None
        assert committed.head.value.seq == number + 1
        assert committed.head.value.tail == tuple(reversed(ids[-TAIL_COMMITS:]))
        ids.append(committed.head.id)
    assert writer.references.fetch("main").pointer == ids[-1]


def test_times_grow_along_the_log_even_if_the_clock_goes_back(
    memory: MemoryBackend, writer: Writer
) -> None:
    later = ManualClock(NOON)
    later.sleep(3600)
    fast = open_writer(memory, ids=CountingIds(1_000), clock=later)
    fast.commits.commit("main", Note, add("a"))
    committed = writer.commits.commit("main", Note, add("b"))
    assert committed.head is not None
    assert committed.head.value.committed_at == micros(later.now()) + 1


def test_changes_are_those_of_one_commit(writer: Writer) -> None:
    writer.commits.commit("main", Note, add("a"))
    committed = writer.commits.commit("main", Note, lambda attempt: Note(done=("b",)))
    assert committed.head is not None
    assert committed.head.value.changes == ()


def test_without_a_change_nothing_is_written(memory: MemoryBackend, writer: Writer) -> None:
    assert writer.commits.commit("main", Note, lambda attempt: None).head is None
    first = writer.commits.commit("main", Note, add("a"))
    before = writer.references.fetch("main"), _rows(memory)
    changes: list[Callable[[Attempt[Note]], Note | None]] = [_write_only, lambda each: each.head]
    for change in changes:
        committed = writer.commits.commit("main", Note, change)
        assert (committed.head, committed.changed) == (first.head, False)
    assert (writer.references.fetch("main"), _rows(memory)) == before


def _write_only(attempt: Attempt[Note]) -> None:
    attempt.write(Paper("never"))


def test_an_attempt_reads_what_it_wrote_and_what_is_stored(writer: Writer) -> None:
    writer.objects.write(5_000, Paper("stored"))

    def change(attempt: Attempt[Note]) -> Note:
        new = attempt.fetch(attempt.write(Paper("new")), Paper)
        old = attempt.fetch(5_000, Paper)
        assert (new, old) == (Paper("new"), Paper("stored"))
        assert attempt.fetch(5_001, Paper) is None
        return Note(done=("read",))

    assert writer.commits.commit("main", Note, change).changed


def test_a_commit_needs_its_reference(writer: Writer) -> None:
    with pytest.raises(ReferenceMissingError, match="no reference 'other'"):
        writer.commits.commit("other", Note, add("a"))


def test_a_head_of_another_kind_is_an_error(writer: Writer) -> None:
    class Other(Commit, frozen=True):
        pass

    writer.commits.commit("main", Note, add("a"))
    with pytest.raises(WrongTypeError):
        writer.commits.commit("main", Other, lambda attempt: Other())


def test_an_error_of_the_change_leaves_nothing(memory: MemoryBackend, writer: Writer) -> None:
    def change(attempt: Attempt[Note]) -> Note:
        attempt.write(Paper("never"))
        raise KeyError("no")

    with pytest.raises(KeyError):
        writer.commits.commit("main", Note, change)
    assert _rows(memory) == 0
    assert writer.references.fetch("main").version == 0


def test_who_loses_tries_again_and_cleans_up(
    memory: MemoryBackend, writer: Writer, rival: Writer
) -> None:
    rivals = iter("xyz")

    def change(attempt: Attempt[Note]) -> Note:
        for deed in rivals:
            rival.commits.commit("main", Note, add(deed))
            break
        return add("mine")(attempt)

    committed = writer.commits.commit("main", Note, change)
    assert committed.attempts == 4
    assert _done(writer) == ("x", "y", "z", "mine")
    assert _rows(memory) == 8  # a head and a paper for each commit


def test_a_change_that_gives_up_after_losing_is_cleaned_up(
    memory: MemoryBackend, writer: Writer, rival: Writer
) -> None:
    def change(attempt: Attempt[Note]) -> Note:
        if attempt.head is not None:
            raise KeyError("taken")
        new = add("mine")(attempt)
        rival.commits.commit("main", Note, add("x"))
        return new

    with pytest.raises(KeyError, match="taken"):
        writer.commits.commit("main", Note, change)
    assert _done(writer) == ("x",)
    assert _rows(memory) == 2


def test_who_never_wins_gives_up_in_time(memory: MemoryBackend, writer: Writer) -> None:
    rival = open_writer(memory, ids=CountingIds(1_000_000))
    impatient = open_writer(memory, ids=CountingIds(1_000), patience_seconds=0.1)

    def change(attempt: Attempt[Note]) -> Note:
        rival.commits.commit("main", Note, lambda _: Note(done=("rival",)))
        return add("mine")(attempt)

    with pytest.raises(ContendedError, match="no commit to reference 'main'"):
        impatient.commits.commit("main", Note, change)
    assert all(head.type == "note" and head.id >= 1_000_000 for head in memory.scan_rows(REALM))


UNKNOWN = (
    BackendFault.LOSE_REQUEST,
    BackendFault.LOSE_ANSWER,
    BackendFault.HALVE,
    BackendFault.LATE,
)


@pytest.mark.parametrize("fault", [*UNKNOWN, BackendFault.REFUSE, BackendFault.SLOW])
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("method", ["update_reference", "write", "delete"])
def test_a_lost_answer_changes_nothing_about_a_commit(
    memory: MemoryBackend, writer: Writer, method: str, fault: BackendFault, times: int
) -> None:
    writer.commits.commit("main", Note, add("before"))
    faulty = _faulty(memory, method, *[fault] * times)
    committed = faulty.commits.commit("main", Note, add("mine"))
    writer.commits.commit("main", Note, add("after"))
    assert committed.head is not None
    assert committed.head.value.done == ("before", "mine")
    assert _done(writer) == ("before", "mine", "after")


@pytest.mark.parametrize("others", [1, 5, 19, 20, 21, 22, 45])
@pytest.mark.parametrize("fault", UNKNOWN)
def test_an_unknown_swap_is_found_behind_the_commits_of_others(
    memory: MemoryBackend, writer: Writer, rival: Writer, fault: BackendFault, others: int
) -> None:
    """Others commit after the swap whose answer is lost, and before anybody looks."""

    def choose(method: str) -> BackendFault:
        nonlocal fault
        if method == "update_reference" and fault is not BackendFault.NONE:
            return fault
        if method == "fetch_references" and looks.pop():
            fault = BackendFault.NONE
            for number in range(others):
                rival.commits.commit("main", Note, add(f"other {number}"))
        return BackendFault.NONE

    looks = [False] * 100 + [True, False]  # the first read is that of the attempt
    backend = FaultyBackend(memory, choose, ManualClock(NOON))
    mine = open_writer(backend, ids=CountingIds(1_000))
    committed = mine.commits.commit("main", Note, add("mine"))
    assert committed.changed
    deeds = _done(writer)
    assert deeds.count("mine") == 1
    assert len(deeds) == others + 1


def test_an_unknown_swap_that_cannot_be_settled_keeps_its_objects(
    memory: MemoryBackend, writer: Writer
) -> None:
    faulty = _faulty(
        memory, "update_reference", *[BackendFault.LOSE_REQUEST] * 9_999, patience_seconds=1
    )
    with pytest.raises(UnknownOutcomeError, match="may or may not have happened") as caught:
        faulty.commits.commit("main", Note, add("mine"))
    assert "lakesweep store log" in caught.value.hint
    assert _rows(memory) == 2


def test_an_unknown_swap_of_a_deleted_reference_stays_unknown(
    memory: MemoryBackend, writer: Writer
) -> None:
    def choose(method: str) -> BackendFault:
        if method != "update_reference":
            return BackendFault.NONE
        writer.references.delete(writer.references.fetch("main"))
        return BackendFault.LOSE_REQUEST

    mine = open_writer(FaultyBackend(memory, choose, ManualClock(NOON)), ids=CountingIds(1_000))
    with pytest.raises(UnknownOutcomeError):
        mine.commits.commit("main", Note, add("mine"))
    assert _rows(memory) == 2


def test_a_definite_failure_behind_an_unknown_one_stays_unknown(
    memory: MemoryBackend, writer: Writer
) -> None:
    """The second try is refused for good, but the first may have happened."""
    tries = iter((BackendFault.LATE, None))

    def choose(method: str) -> BackendFault:
        if method != "update_reference":
            return BackendFault.NONE
        fault = next(tries)
        if fault is None:
            raise StoreError("the database is read-only")
        return fault

    backend = FaultyBackend(memory, choose, ManualClock(NOON))
    mine = open_writer(backend, ids=CountingIds(1_000))
    with pytest.raises(UnknownOutcomeError):
        mine.commits.commit("main", Note, add("mine"))
    backend.land_late_writes()
    assert _done(writer) == ("mine",)


def test_a_definite_failure_is_passed_on_and_cleaned_up(
    memory: MemoryBackend, writer: Writer
) -> None:
    def choose(method: str) -> BackendFault:
        if method == "update_reference":
            raise StoreError("the database is read-only")
        return BackendFault.NONE

    mine = open_writer(FaultyBackend(memory, choose, ManualClock(NOON)), ids=CountingIds(1_000))
    with pytest.raises(StoreError, match="read-only"):
        mine.commits.commit("main", Note, add("mine"))
    assert _rows(memory) == 0


def test_a_missing_head_is_an_error_and_never_an_empty_state(
    memory: MemoryBackend, writer: Writer
) -> None:
    committed = writer.commits.commit("main", Note, add("a"))
    assert committed.head is not None
    memory.delete(REALM, [RowKey(committed.head.id)])
    with pytest.raises(HeadMissingError, match="is missing") as caught:
        writer.commits.commit("main", Note, add("b"))
    assert "lakesweep store recover" in caught.value.hint
    assert writer.references.fetch("main").pointer == committed.head.id


def test_a_head_that_is_only_late_is_waited_for(memory: MemoryBackend, writer: Writer) -> None:
    writer.commits.commit("main", Note, add("a"))
    faulty = _faulty(memory, "fetch", BackendFault.NONE, BackendFault.STALE, BackendFault.STALE)
    faulty.commits.commit("main", Note, add("b"))
    assert faulty.commits.commit("main", Note, add("c")).attempts == 3
    assert _done(writer) == ("a", "b", "c")


def test_threads_of_one_process_never_lose_against_each_other(writer: Writer) -> None:
    def work(thread: int) -> set[int]:
        commits = [
            writer.commits.commit("main", Note, add(f"{thread}:{number}")) for number in range(25)
        ]
        return {committed.attempts for committed in commits}

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [{1}] * 8
    deeds = _done(writer)
    assert len(deeds) == 200
    for thread in range(8):
        own = [deed for deed in deeds if deed.startswith(f"{thread}:")]
        assert own == [f"{thread}:{number}" for number in range(25)]


def test_a_large_commit_is_written_in_parts(memory: MemoryBackend, writer: Writer) -> None:
    def change(attempt: Attempt[Note]) -> Note:
        attempt.record(*(Change("add", str(number).encode() * 9) for number in range(30_000)))
        return Note(done=("many",))

    committed = writer.commits.commit("main", Note, change)
    assert committed.head is not None
    assert committed.head.parts > 1
    assert writer.objects.fetch(committed.head.id, Note) == committed.head
