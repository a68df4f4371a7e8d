from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import HeadMissingError, LogCutError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.commits.references import moved
from tests.asked_backend import AskedBackend
from tests.moments import NOON
from tests.stores import REALM, Note, Writer, add, open_writer


def _writer(commits: int, backend: Backend | None = None) -> tuple[Writer, list[int]]:
    """A log with a commit every second from noon on, and the ids of its commits."""
    clock = ManualClock(NOON)
    writer = open_writer(backend or MemoryBackend(), clock=clock)
    writer.references.create("main")
    ids = []
    for number in range(commits):
        committed = writer.commits.commit("main", Note, add(str(number)))
        assert committed.head is not None
        ids.append(committed.head.id)
        clock.sleep(1)
    return writer, ids


@pytest.mark.parametrize("commits", [0, 1, 3, 19, 20, 21, 22, 39, 40, 41, 255])
def test_the_log_is_complete_in_both_directions(commits: int) -> None:
    writer, ids = _writer(commits)
    assert [commit.id for commit in writer.log.newest_first("main")] == ids[::-1]
    oldest_first = list(writer.log.oldest_first("main"))
    assert [commit.id for commit in oldest_first] == ids
    assert [commit.value.seq for commit in oldest_first] == list(range(1, commits + 1))


@pytest.mark.parametrize("back", [0, 1, 3, 19, 20, 21, 41, 49])
def test_a_commit_starts_the_log_behind_itself(back: int) -> None:
    writer, ids = _writer(50)
    start = ids[-1 - back]
    expected = ids[len(ids) - back :]
    assert [commit.id for commit in writer.log.oldest_first("main", start)] == expected
    assert [commit.id for commit in writer.log.newest_first("main", start)] == expected[::-1]


@pytest.mark.parametrize("seconds", [-1, 0, 0.5, 1, 20, 49, 50])
def test_a_moment_starts_the_log_at_itself(seconds: float) -> None:
    writer, ids = _writer(50)
    start = NOON + timedelta(seconds=seconds)
    expected = [number for second, number in enumerate(ids) if second >= seconds]
    assert [commit.id for commit in writer.log.oldest_first("main", start)] == expected
    assert [commit.id for commit in writer.log.newest_first("main", start)] == expected[::-1]


def test_a_cut_log_ends_where_it_was_cut() -> None:
    writer, ids = _writer(50)
    _cut(writer, ids[:17])
    oldest_first = list(writer.log.oldest_first("main"))
    assert [commit.id for commit in oldest_first] == ids[17:]
    assert oldest_first[0].value.seq == 18


def test_a_start_that_is_gone_is_said() -> None:
    writer, ids = _writer(50)
    _cut(writer, ids[:17])
    for start in (ids[3], ids[16], 999_999, NOON + timedelta(seconds=3)):
        with pytest.raises(LogCutError, match="does not go back to"):
            next(writer.log.oldest_first("main", start))
        with pytest.raises(LogCutError, match="does not go back to"):
            list(writer.log.newest_first("main", start))
    assert len(list(writer.log.oldest_first("main", ids[17]))) == 32
    assert len(list(writer.log.oldest_first("main", NOON + timedelta(seconds=18)))) == 32


def test_a_log_that_is_cut_while_it_is_read_says_so() -> None:
    writer, ids = _writer(50)
    reading = writer.log.oldest_first("main")
    next(reading)
    _cut(writer, ids[:30])
    with pytest.raises(LogCutError, match="truncated while it was read"):
        list(reading)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_commits_may_name_fewer_before_them(length: int) -> None:
    writer, ids = _short_tails(50, length)
    assert [commit.id for commit in writer.log.newest_first("main")] == ids[::-1]
    assert [commit.id for commit in writer.log.oldest_first("main")] == ids
    for start in range(50):
        expected = ids[start + 1 :]
        assert [commit.id for commit in writer.log.oldest_first("main", ids[start])] == expected
        assert [commit.id for commit in writer.log.newest_first("main", ids[start])][::-1] == (
            expected
        )


@pytest.mark.parametrize("gone", range(50))
def test_wherever_a_log_was_cut_all_that_is_left_comes(gone: int) -> None:
    writer, ids = _writer(50)
    _cut(writer, ids[:gone])
    assert [commit.id for commit in writer.log.oldest_first("main")] == ids[gone:]
    assert [commit.id for commit in writer.log.newest_first("main")] == ids[gone:][::-1]


def test_a_gap_ends_the_log() -> None:
    writer, ids = _writer(50)
    _cut(writer, [ids[30]])
    assert [commit.id for commit in writer.log.newest_first("main")] == ids[:30:-1]
    with pytest.raises(LogCutError, match="was truncated"):
        list(writer.log.oldest_first("main"))


def test_finding_a_start_reads_one_commit_in_twenty() -> None:
    backend = AskedBackend(MemoryBackend())
    writer, ids = _writer(401, backend)
    backend.asked.clear()
    found = writer.log.ids(writer.references.fetch_for_update("main"), ids[0])
    assert list(found) == ids[:0:-1]
    assert backend.asked["rows"] == 1 + 20


def test_a_start_near_the_head_costs_no_more_than_what_comes() -> None:
    backend = AskedBackend(MemoryBackend())
    writer, ids = _writer(50, backend)
    for read in (writer.log.oldest_first, writer.log.newest_first):
        backend.asked.clear()
        assert len(list(read("main", ids[-4]))) == 3
        assert backend.asked["rows"] <= 5


def test_a_missing_head_is_not_an_empty_log() -> None:
    writer, ids = _writer(3)
    _cut(writer, ids[-1:])
    with pytest.raises(HeadMissingError):
        list(writer.log.newest_first("main"))


def _short_tails(commits: int, length: int) -> tuple[Writer, list[int]]:
    """A log whose commits name no more than `length` before them."""
    writer = open_writer(MemoryBackend())
    reference = writer.references.create("main")
    ids = list(range(1_000, 1_000 + commits))
    for place, number in enumerate(ids):
        tail = tuple(ids[max(0, place - length) : place][::-1])
        writer.objects.write(number, Note(seq=place + 1, tail=tail, committed_at=place))
        reference = moved(reference, number)
    writer.backend.update_reference(REALM, reference, writer.references.fetch("main"))
    return writer, ids


def _cut(writer: Writer, ids: list[int]) -> None:
    writer.backend.delete(REALM, [RowKey(number) for number in ids])
