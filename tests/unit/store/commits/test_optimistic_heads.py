"""Commits that do not ask for their reference first, because nobody else moves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from lakesweep.errors import ReferenceMissingError, WrongTypeError
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import MAX_VALUE_BYTES, ObjectRow, Reference, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.commits import optimistic_heads
from lakesweep.store.commits.commit import Commit
from lakesweep.store.commits.committer import Attempt
from lakesweep.store.commits.optimistic_heads import MAX_HEAD_BYTES, OptimisticHeads
from tests.stores import REALM, CountingIds, Note, Writer, add, open_writer


class Listed(Commit, frozen=True, kw_only=True):
    """A head that is frozen, but holds something that is not."""

    names: list[str]


class CountingBackend(BackendWrapper):
    """Counts the calls that a commit makes."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.calls: Counter[str] = Counter()

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        self.calls["ask"] += 1
        return super().fetch_references(realm, names)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        self.calls["read"] += 1
        return super().fetch(realm, keys)

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        self.calls["commit"] += 1
        return super().commit(realm, rows, new, expected)


@pytest.fixture
def memory() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def backend(memory: MemoryBackend) -> CountingBackend:
    return CountingBackend(memory)


@pytest.fixture
def writer(backend: CountingBackend) -> Writer:
    """Somebody who has committed alone for a while."""
    writer = open_writer(backend)
    writer.references.create("main")
    for deed in "abc":
        writer.commits.commit("main", Note, add(deed))
    backend.calls.clear()
    return writer


@pytest.fixture
def rival(memory: MemoryBackend, writer: Writer) -> Writer:
    return open_writer(memory, ids=CountingIds(1_000_000))


def _done(writer: Writer) -> list[str]:
    return [commit.value.changes[0].key.decode() for commit in writer.log.oldest_first("main")]


def test_who_commits_alone_makes_one_call(writer: Writer, backend: CountingBackend) -> None:
    for number in range(5):
        committed = writer.commits.commit("main", Note, add(str(number)))
        assert committed.attempts == 1
    assert backend.calls == {"commit": 5}
    assert _done(writer) == [*"abc01234"]


@pytest.mark.parametrize("letters", [MAX_HEAD_BYTES, MAX_VALUE_BYTES])
def test_a_large_head_is_read_again(writer: Writer, backend: CountingBackend, letters: int) -> None:
    writer.commits.commit("main", Note, lambda _: Note(done=("x" * letters,)))
    backend.calls.clear()
    committed = writer.commits.commit("main", Note, add("d"))
    assert committed.head is not None
    assert committed.head.value.done == ("x" * letters, "d")
    assert backend.calls["read"] > 0
    assert committed.attempts == backend.calls["commit"] == 1


def test_a_head_of_another_kind_is_told_where_it_was_remembered(writer: Writer) -> None:
    with pytest.raises(WrongTypeError):
        writer.commits.commit("main", Listed, lambda _: Listed(names=[]))
    assert _done(writer) == [*"abc"]


def test_what_a_caller_does_to_a_head_is_not_remembered() -> None:
    store = Store(MemoryBackend(), types={"listed": Listed})
    realm = store.create_realm(REALM)
    realm.references.create("main")
    for _ in range(3):
        realm.commit("main", lambda _: Listed(names=[]), Listed)
    committed = realm.commit("main", lambda _: Listed(names=["written"]), Listed)
    assert committed.head is not None
    committed.head.value.names.append("unwritten")
    seen: list[list[str]] = []

    def look(attempt: Attempt[Listed]) -> Listed:
        assert attempt.head is not None
        seen.append(attempt.head.names)
        return Listed(names=[])

    realm.commit("main", look, Listed)
    assert seen == [["written"]]


def test_after_somebody_else_has_committed_the_guess_costs_one_call(
    writer: Writer, rival: Writer, backend: CountingBackend
) -> None:
    rival.commits.commit("main", Note, add("rival"))
    committed = writer.commits.commit("main", Note, add("d"))
    assert committed.attempts == 2
    assert backend.calls == {"ask": 1, "read": 1, "commit": 2}
    assert _done(writer) == [*"abc", "rival", "d"]
    assert len(list(backend.scan_rows(REALM))) == 2 * 5


def test_who_competes_with_others_asks_each_time(
    writer: Writer, rival: Writer, backend: CountingBackend
) -> None:
    for number in range(5):
        rival.commits.commit("main", Note, add(f"rival {number}"))
        writer.commits.commit("main", Note, add(str(number)))
    assert backend.calls == {"ask": 5, "read": 5, "commit": 6}
    assert len(_done(writer)) == 3 + 2 * 5


def test_a_change_that_changes_nothing_has_seen_the_present_head(
    writer: Writer, rival: Writer, memory: MemoryBackend
) -> None:
    def unless_alone(attempt: Attempt[Note]) -> Note | None:
        assert attempt.head is not None
        return Note(done=("late",)) if "rival" in attempt.head.done else None

    assert not writer.commits.commit("main", Note, unless_alone).changed
    for deed in "de":
        writer.commits.commit("main", Note, add(deed))
    rival.commits.commit("main", Note, add("rival"))
    assert writer.commits.commit("main", Note, unless_alone).changed


def test_a_change_that_refuses_an_old_head_is_asked_again(writer: Writer, rival: Writer) -> None:
    def need_rival(attempt: Attempt[Note]) -> Note:
        assert attempt.head is not None
        if "rival" not in attempt.head.done:
            raise LookupError("where is the rival?")
        return Note(done=("found",))

    with pytest.raises(LookupError):
        writer.commits.commit("main", Note, need_rival)
    for deed in "de":
        writer.commits.commit("main", Note, add(deed))
    rival.commits.commit("main", Note, add("rival"))
    assert writer.commits.commit("main", Note, need_rival).changed


def test_a_reference_that_was_made_anew_is_another_one(writer: Writer, rival: Writer) -> None:
    assert rival.references.delete(rival.references.fetch("main"))
    with pytest.raises(ReferenceMissingError):
        writer.commits.commit("main", Note, add("d"))
    rival.references.create("main")
    for _ in range(3):
        writer.commits.commit("main", Note, add("d"))
    assert rival.references.delete(rival.references.fetch("main"))
    rival.references.create("main")
    committed = writer.commits.commit("main", Note, add("new"))
    assert committed.head is not None
    assert committed.head.value.done == ("new",)


def test_an_old_head_that_is_gone_is_no_missing_head(writer: Writer, rival: Writer) -> None:
    before = writer.references.fetch("main").pointer
    assert before is not None
    old = writer.objects.fetch(before, Note)
    assert old is not None
    rival.commits.commit("main", Note, add("rival"))
    rival.objects.delete([old])
    committed = writer.commits.commit("main", Note, add("d"))
    assert committed.head is not None
    assert committed.head.value.done[-2:] == ("rival", "d")


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimistic_heads, "MAX_HEADS", 3)
    some = OptimisticHeads()
    for number in range(10):
        reference = Reference(str(number), 1, 1, 5)
        some.follow(reference)
        some.observe(reference)
        found = some.guess(reference.name)
        assert found is not None
        assert found.reference == reference
    assert [name for name in map(str, range(10)) if some.guess(name)] == ["7", "8", "9"]
