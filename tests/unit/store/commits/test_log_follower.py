from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest

from lakesweep.bench.processes import fresh_processes
from lakesweep.clock import Clock, ManualClock
from lakesweep.errors import HeadMissingError, LogCutError, UnreachableError
from lakesweep.store import Commit, Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.commits.log import Follower, Start
from tests.asked_backend import AskedBackend
from tests.moments import NOON
from tests.stores import REALM, Note, Writer, add, open_writer


def _open(backend: Backend | None = None, clock: Clock | None = None) -> Writer:
    writer = open_writer(backend or MemoryBackend(), clock=clock or ManualClock(NOON))
    writer.references.create("main")
    return writer


def _commit(writer: Writer, commits: int) -> list[int]:
    heads = [writer.commits.commit("main", Note, add("x")).head for _ in range(commits)]
    return [head.id for head in heads if head is not None]


def _follow(writer: Writer, start: Start | None = None, page_commits: int = 100) -> Follower:
    return Follower(writer.log, "main", start, writer.commits.clock, page_commits)


def _ids(follower: Follower) -> list[int]:
    return [commit.id for commit in follower.poll()]


def test_each_commit_comes_once_and_in_order() -> None:
    writer = _open()
    follower = _follow(writer)
    assert _ids(follower) == []
    for commits in (1, 3, 25, 60):
        made = _commit(writer, commits)
        assert _ids(follower) == made
        assert _ids(follower) == []
        assert follower.position == made[-1]


def test_a_feed_begins_behind_a_commit_or_at_a_moment() -> None:
    clock = ManualClock(NOON)
    writer = _open(clock=clock)
    made = []
    for _ in range(30):
        made += _commit(writer, 1)
        clock.sleep(1)
    assert _ids(_follow(writer, made[4])) == made[5:]
    assert _ids(_follow(writer, made[-1])) == []
    assert _ids(_follow(writer, NOON + timedelta(seconds=7))) == made[7:]


def test_a_moment_to_come_lets_earlier_commits_pass() -> None:
    clock = ManualClock(NOON)
    writer = _open(clock=clock)
    follower = _follow(writer, NOON + timedelta(seconds=10))
    _commit(writer, 2)
    assert _ids(follower) == []
    clock.sleep(10)
    assert _ids(follower) == []
    made = _commit(writer, 2)
    assert _ids(follower) == made


def test_a_poll_never_brings_more_than_a_page() -> None:
    writer = _open()
    made = _commit(writer, 25)
    follower = _follow(writer, page_commits=10)
    assert [_ids(follower) for _ in range(4)] == [made[:10], made[10:20], made[20:], []]


def test_commits_that_come_between_pages_are_not_forgotten() -> None:
    writer = _open()
    made = _commit(writer, 25)
    follower = _follow(writer, page_commits=20)
    first = _ids(follower)
    made += _commit(writer, 3)
    assert first + _ids(follower) + _ids(follower) == made


def test_a_poll_for_nothing_reads_the_reference_once() -> None:
    backend = AskedBackend(MemoryBackend())
    writer = _open(backend)
    at_the_head = _follow(writer, _commit(writer, 5)[-1])
    from_a_moment = _follow(writer, NOON + timedelta(days=1))
    from_a_moment.poll()
    for follower in (at_the_head, from_a_moment):
        backend.asked.clear()
        assert not follower.poll()
        assert backend.asked == {"references": 1}


def test_a_long_backlog_is_walked_once() -> None:
    backend = AskedBackend(MemoryBackend())
    writer = _open(backend)
    made = _commit(writer, 401)
    follower = _follow(writer, made[0])
    backend.asked.clear()
    assert [number for _ in range(4) for number in _ids(follower)] == made[1:]
    # Each commit, one in twenty to find them, and one reference.
    assert backend.asked["rows"] == 400 + 21
    assert backend.asked["references"] == 1


def test_a_position_that_is_gone_is_said_each_time() -> None:
    writer = _open()
    made = _commit(writer, 30)
    follower = _follow(writer, made[3])
    writer.backend.delete(REALM, [RowKey(number) for number in made[:10]])
    for _ in range(2):
        with pytest.raises(LogCutError, match="does not go back"):
            follower.poll()
    assert follower.position == made[3]


def test_what_is_cut_while_it_waits_its_turn_is_said() -> None:
    writer = _open()
    made = _commit(writer, 30)
    follower = _follow(writer, page_commits=10)
    assert _ids(follower) == made[:10]
    writer.backend.delete(REALM, [RowKey(number) for number in made[:15]])
    with pytest.raises(LogCutError, match="was truncated while it was read"):
        follower.poll()
    assert follower.position == made[9]


def test_a_recovered_reference_is_not_followed_as_if_nothing_was_lost() -> None:
    writer = _open()
    made = _commit(writer, 5)
    follower = _follow(writer)
    follower.poll()
    writer.references.swap(writer.references.fetch("main"), made[2])
    with pytest.raises(LogCutError):
        follower.poll()


def test_a_missing_head_is_not_the_end_of_news() -> None:
    writer = _open()
    follower = _follow(writer, _commit(writer, 3)[-1])
    writer.backend.delete(REALM, [RowKey(_commit(writer, 1)[0])])
    with pytest.raises(HeadMissingError):
        follower.poll()


def test_after_an_error_nothing_is_left_out() -> None:
    clock = ManualClock(NOON)
    faults = [
        BackendFault.REFUSE,
        *[BackendFault.NONE] * 4,
        BackendFault.REFUSE,
        BackendFault.NONE,
        BackendFault.NONE,
        BackendFault.REFUSE,
    ]
    memory = MemoryBackend()
    writer = _open(memory, clock)
    made = _commit(writer, 50)
    backend = FaultyBackend(memory, lambda _: faults.pop(0) if faults else BackendFault.NONE, clock)
    follower = _follow(open_writer(backend, clock=clock), page_commits=10)
    got: list[int] = []
    while len(got) < 50:
        try:
            got += _ids(follower)
        except UnreachableError:
            assert follower.position == (got[-1] if got else None)
    assert got == made
    assert not faults


def test_a_stream_waits_for_what_is_to_come() -> None:
    class CommittingClock(ManualClock):
        """Somebody else commits whenever the follower sleeps."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            made.extend(_commit(writer, 2))

    clock = CommittingClock(NOON)
    writer = _open(clock=ManualClock(NOON))
    made = _commit(writer, 3)
    stream = Follower(writer.log, "main", None, clock).stream(interval_seconds=5.0)
    assert [commit.id for commit in islice(stream, 7)] == made
    assert clock.monotonic() == 10.0


def test_a_stream_that_is_left_can_be_gone_on_with() -> None:
    writer = _open()
    made = _commit(writer, 9)
    follower = _follow(writer)
    first = [commit.id for commit in islice(follower.stream(), 4)]
    assert first == made[:4]
    assert follower.position == made[3]
    assert _ids(follower) == made[4:]


def _read_on(url: str, position: int | None) -> tuple[list[int], int | None]:
    """What a process of its own does: it goes on where another one was."""
    with Store.open(url) as store:
        follower = store.realm("acme").follow("root", position, page_commits=4)
        ids = [commit.id for commit in follower.poll()]
        return ids, follower.position


def test_processes_hand_on_their_position(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.create_tables(url)
    got: list[int] = []
    position = None
    with Store.open(url, types={"note": Note}) as store:
        realm = store.create_realm("acme")
        for number in range(8):
            realm.commit("root", add_nothing, Note, message=str(number))
        for _ in range(3):
            with ProcessPoolExecutor(1, mp_context=fresh_processes()) as pool:
                ids, position = pool.submit(_read_on, url, position).result()
            got += ids
        log = list(realm.log("root", oldest_first=True))
    assert got == [commit.id for commit in log]
    assert [commit.value.message for commit in log] == [str(number) for number in range(8)]
    assert position == got[-1]


def add_nothing(_: object) -> Note:
    return Note()


def test_every_reference_can_be_followed() -> None:
    store = Store(MemoryBackend(), clock=ManualClock(NOON))
    realms = store.system.follow("realms")
    store.create_realm("acme")
    store.create_realm("beta")
    heads = realms.poll()
    assert all(isinstance(commit.value, Commit) for commit in heads)
    assert [commit.value.message for commit in heads][-1] == "realm beta is active"
    assert not realms.poll()
