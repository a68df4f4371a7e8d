from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesweep.errors import StoreError
from lakesweep.store import Realm, Store
from lakesweep.store.backends.sql.database import ConnectionPool
from tests.stores import Note, Paper, add

#: A child that hangs is ended by a signal after so many seconds, and the test fails.
HUNG_SECONDS = 20
FORKS = 5


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    with Store.open(url, types={"note": Note, "paper": Paper}) as store:
        store.create_realm("acme")
        yield store


def _outcome_in_child(action: Callable[[], object]) -> str:
    """What comes of it in a forked process: an error of the store, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(HUNG_SECONDS)
        try:
            action()
            os.write(writing, b"done")
        except StoreError as error:
            os.write(writing, error.message.encode())
        finally:
            os._exit(0)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with os.fdopen(reading) as answer:
        return answer.read()


def _uses(store: Store, realm: Realm) -> dict[str, Callable[[], object]]:
    return {
        "commit": lambda: realm.commit("root", add("child"), Note),
        "read": lambda: realm.head("root", Note),
        "read afresh": lambda: realm.head("root", Note, fresh=True),
        "open": lambda: store.realm("acme"),
        "list": lambda: list(store.realms.list()),
        "backend": store.backend.realms,
    }


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_is_turned_away_at_once_while_threads_commit(store: Store) -> None:
    realm, ended, done = store.realm("acme"), threading.Event(), list[int]()

    def work(thread: int) -> None:
        while not ended.is_set():
            realm.commit("root", lambda attempt: Note(), Note)
            done.append(thread)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        answers = [
            _outcome_in_child(use) for _ in range(FORKS) for use in _uses(store, realm).values()
        ]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    expected = f"this store belongs to process {os.getpid()}, from which this one was forked"
    assert set(answers) == {expected}
    assert len(list(realm.log("root"))) == len(done)


def test_a_forked_process_that_closes_the_store_takes_nothing_from_its_parent(store: Store) -> None:
    assert _outcome_in_child(store.close) == "done"
    store.realm("acme").commit("root", add("deed"), Note)


def test_a_forked_process_leaves_the_connections_of_its_parent_open() -> None:
    closed = list[str]()
    pool = ConnectionPool(lambda: _Noting(closed), lambda _, __: True)
    pool.release(pool.take())

    def close() -> None:
        pool.close()
        if closed:
            raise StoreError("the connection was closed")

    assert _outcome_in_child(close) == "done"
    pool.close()
    assert closed == ["closed"]


class _Noting:
    """A connection that notes when it is closed."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def close(self) -> None:
        self._notes.append("closed")
