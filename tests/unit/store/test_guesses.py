"""Commits that do not ask for their reference first, because nobody else moves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import pytest

from lakesweep.errors import ReferenceMissingError
from lakesweep.store import guesses
from lakesweep.store.backend import Backend, ObjectRow, Reference
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.passing import PassingBackend
from lakesweep.store.commits import Attempt
from lakesweep.store.guesses import Guesses
from tests.stores import REALM, CountingIds, Note, Writer, add, open_writer


class CountingBackend(PassingBackend):
    """Counts the calls that a commit makes."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.calls: Counter[str] = Counter()

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        self.calls["ask"] += 1
        return super().fetch_references(realm, names)

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


def test_after_somebody_else_has_committed_the_guess_costs_one_call(
    writer: Writer, rival: Writer, backend: CountingBackend
) -> None:
    rival.commits.commit("main", Note, add("rival"))
    committed = writer.commits.commit("main", Note, add("d"))
    assert committed.attempts == 2
    assert backend.calls == {"ask": 1, "commit": 2}
    assert _done(writer) == [*"abc", "rival", "d"]
    assert len(list(backend.scan_rows(REALM))) == 2 * 5


def test_who_competes_with_others_asks_each_time(
    writer: Writer, rival: Writer, backend: CountingBackend
) -> None:
    for number in range(5):
        rival.commits.commit("main", Note, add(f"rival {number}"))
        writer.commits.commit("main", Note, add(str(number)))
    assert backend.calls == {"ask": 5, "commit": 6}
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
    monkeypatch.setattr(guesses, "MAX_GUESSES", 3)
    some = Guesses()
    for number in range(10):
        reference = Reference(str(number), 1, 1, 5)
        some.follow(reference)
        some.learn(reference)
        assert some.guess(reference.name) == reference
    assert [name for name in map(str, range(10)) if some.guess(name)] == ["7", "8", "9"]
