"""Processes that commit to one reference of a real database, and are killed in the middle of it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lakesweep.store import LINKS, NO_INDEX, Attempt, Change, Commit, IndexRoot, Store, key, seal
from lakesweep.store.bench import Load, run_bench
from lakesweep.store.reach import reach
from lakesweep.store.realm import Realm

DATABASES = ["sqlite", "postgresql", "mariadb"]
WRITERS = 8
ROUNDS = 3
#: So many writers are killed in each round, each after a few more commits.
VICTIMS = 3
#: An object of so many bytes lies in several rows.
LARGE_BYTES = 800_000


class Page(msgspec.Struct, frozen=True):
    text: str


class Book(Commit, frozen=True, kw_only=True):
    """A head with an index that outgrows it, and whose pages may be large."""

    pages: IndexRoot = NO_INDEX


TYPES: dict[str, Any] = {"page": Page, "book": Book}
Add = Callable[[Attempt[Book]], Book]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with an empty store in it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/store.db"
    else:
        url = request.getfixturevalue(f"{request.param}_databases").new_database()
    Store.create_tables(url)
    return str(url)


@pytest.mark.parametrize("url", DATABASES, indirect=True)
def test_processes_commit_to_one_reference_without_a_failure(url: str) -> None:
    result = run_bench(url, Load(writers=WRITERS, commits=500))
    assert (result.commits, result.failures, result.errors) == (4_000, 0, ())
    assert result.log_complete


def _add_page(writer: int, number: int) -> Add:
    large = number % 5 == 0

    def change(attempt: Attempt[Book]) -> Book:
        head = attempt.head or Book()
        pages = attempt.index(head.pages, LINKS)
        text = "x" * LARGE_BYTES if large else f"{writer}/{number} " * 50
        pages.put(key(writer, number), attempt.write(Page(text)))
        attempt.record(Change("add", key(writer, number)))
        return Book(pages=seal(pages))

    return change


def _write_for_ever(url: str, writer: int) -> None:
    with Store.open(url, types=TYPES) as store:
        realm = store.realm("acme")
        number = 0
        while True:
            number += 1
            realm.commit("main", _add_page(writer, number), Book)


def _start(url: str, writer: int) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=_write_for_ever, args=(url, writer), daemon=True
    )
    process.start()
    return process


def _let_commit(realm: Realm, count: int) -> None:
    target = realm.references.fetch_for_update("main").version + count
    while realm.references.fetch_for_update("main").version < target:
        time.sleep(0.001)


def _check_everything(realm: Realm) -> int:
    """Read the whole log, and all that its newest commit leads to; how many commits there are.

    A server may still carry out what a writer had asked for before it was killed. So everything
    is compared as of one commit, and not as of two looks at the reference.
    """
    log = list(realm.log("main", oldest_first=True))
    assert [commit.value.seq for commit in log] == list(range(1, len(log) + 1))
    head = log[-1].value
    assert isinstance(head, Book)
    pages = dict(realm.index(head.pages, LINKS).items())
    assert {commit.value.changes[0].key for commit in log} == pages.keys()
    assert all(realm.objects.fetch_many(list(pages.values()), Page))
    assert sum(1 for _ in reach(realm, [realm.references.fetch_for_update("main")])) > len(pages)
    return len(log)


@pytest.mark.parametrize("url", DATABASES, indirect=True)
def test_writers_that_are_killed_leave_everything_readable(url: str) -> None:
    random = Random(11)
    with Store.open(url, types=TYPES) as store:
        realm = store.create_realm("acme")
        realm.references.create("main")
        for round_ in range(ROUNDS):
            writers = [_start(url, 1 + round_ * VICTIMS + victim) for victim in range(VICTIMS)]
            for writer in writers:
                _let_commit(realm, random.randint(1, 20))
                writer.kill()
                writer.join()
            before = _check_everything(realm)
            committed = realm.commit("main", _add_page(0, round_ + 1), Book)
            assert committed.head is not None
            assert committed.head.value.seq > before
        assert _check_everything(realm) > ROUNDS * VICTIMS
