"""Processes that commit to one reference of a real database, and are killed in the middle of it."""

from __future__ import annotations

import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from lakesweep.bench import CommitLoad, run_bench
from lakesweep.bench.processes import fresh_processes
from lakesweep.store import LINKS, Store
from lakesweep.store.realms.reachability import reach
from lakesweep.store.realms.realm import Realm
from tests.book_writers import TYPES, Book, Page, add_page, write_for_ever
from tests.servers import S3Server

DATABASES = ["sqlite", "postgresql", "mariadb"]
WRITERS = 8
ROUNDS = 3
#: So many writers are killed in each round, each after a few more commits.
VICTIMS = 3


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
    result = run_bench(url, CommitLoad(writers=WRITERS, commits=100))
    assert (result.commits, result.failures, result.errors) == (800, 0, ())
    assert result.log_complete


def test_writers_find_what_was_set_after_the_process_that_they_come_from_began(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh_processes().Process(target=int)
    first.start()
    first.join()
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto.endpoint)
    monkeypatch.setenv("AWS_REGION", moto.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto.secret_access_key)
    Store.create_tables("dynamodb://bench")
    result = run_bench("dynamodb://bench", CommitLoad(writers=1, commits=2))
    assert (result.commits, result.errors, result.log_complete) == (2, (), True)


def _start(url: str, writer: int) -> BaseProcess:
    process = fresh_processes().Process(target=write_for_ever, args=(url, writer), daemon=True)
    process.start()
    return process


def _let_commit(realm: Realm, count: int) -> None:
    target = realm.references.fetch_for_update("main").version + count
    while realm.references.fetch_for_update("main").version < target:
        time.sleep(0.005)


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
            committed = realm.commit("main", add_page(0, round_ + 1), Book)
            assert committed.head is not None
            assert committed.head.value.seq > before
        assert _check_everything(realm) > ROUNDS * VICTIMS
