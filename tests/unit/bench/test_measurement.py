from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakesweep.bench import CommitLoad, run_bench
from lakesweep.bench.measurement import log_is_complete, summarize
from lakesweep.bench.processes import BENCH_TYPES, WriterResult, run_writer
from lakesweep.clock import SystemClock
from lakesweep.errors import SchemaError
from lakesweep.progress import ProgressTask
from lakesweep.store import Store
from lakesweep.store.ids.node_leases import leased_nodes
from lakesweep.store.realms.realm import Realm


class Interrupting:
    """Progress that is interrupted at its first sign."""

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        del label, total, unit
        yield self

    def advance(self, count: int, size_bytes: int = 0) -> None:
        raise KeyboardInterrupt

    def expect(self, total: int) -> None:
        raise NotImplementedError


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    return url


def _realms(url: str) -> list[str]:
    with Store.open(url) as store:
        assert not leased_nodes(store.backend, SystemClock())
        return [realm.name for realm in store.realms.list()]


def _rows(url: str) -> list[str]:
    with Store.open(url) as store:
        return list(store.backend.realms())


@pytest.mark.parametrize("threads", [True, False])
def test_every_commit_is_done_and_nothing_is_left(url: str, threads: bool) -> None:
    result = run_bench(url, CommitLoad(writers=2, commits=10, references=2), threads=threads)
    assert (result.commits, result.failures, result.log_complete) == (20, 0, True)
    assert result.is_good
    assert _realms(url) == []
    assert _rows(url) == ["::system::"]


def test_a_store_in_memory_is_measured_in_threads() -> None:
    result = run_bench("memory:", CommitLoad(writers=3, commits=20))
    assert (result.commits, result.is_good) == (60, True)


def test_a_database_without_tables_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        run_bench(f"sqlite:///{tmp_path}/none.db", CommitLoad())


@pytest.mark.parametrize("threads", [True, False])
def test_an_interruption_leaves_nothing_behind(url: str, threads: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_bench(
            url, CommitLoad(writers=2, commits=10_000), threads=threads, progress=Interrupting()
        )
    assert _realms(url) == []
    assert _rows(url) == ["::system::"]


class Killing(Interrupting):
    """Progress at whose first sign a writer is killed."""

    killed = False

    def advance(self, count: int, size_bytes: int = 0) -> None:
        if not self.killed:
            self.killed = True
            multiprocessing.active_children()[0].kill()


def test_a_writer_that_dies_is_told_and_the_others_go_on(url: str) -> None:
    result = run_bench(url, CommitLoad(writers=2, commits=1_000), progress=Killing())
    assert 1_000 <= result.commits < 2_000
    assert result.failures == 2_000 - result.commits
    assert not result.log_complete
    assert any("ended with code -9" in error for error in result.errors)
    with Store.open(url) as store:
        assert list(store.realms.list()) == []


def test_the_figures_are_those_of_all_writers() -> None:
    works = [WriterResult(0, [0.002, 0.004], 5), WriterResult(1, [0.001], 1, ["lost"])]
    result = summarize(CommitLoad(2, 2), works, 2.0, log_complete=False)
    assert (result.commits, result.failures, result.seconds) == (3, 1, 2.0)
    assert (result.commits_per_second, result.attempts_per_commit) == (1.5, 2.0)
    assert (result.p50_ms, result.p99_ms, result.max_ms) == (2.0, 4.0, 4.0)
    assert result.errors == ("lost",)
    assert not result.is_good


def test_without_a_commit_there_are_no_times() -> None:
    result = summarize(CommitLoad(1, 1), [WriterResult(0)], 1.0, log_complete=False)
    assert (result.p50_ms, result.max_ms, result.attempts_per_commit) == (None, None, None)


@pytest.mark.parametrize("load", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_load_does_something(load: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        CommitLoad(*load)


@pytest.fixture
def realm() -> Iterator[Realm]:
    with Store.open("memory:", types=BENCH_TYPES) as store:
        realm = store.create_realm("acme")
        realm.references.create("bench/0")
        yield realm


def _write(realm: Realm, writer: int, commits: int) -> None:
    run_writer(realm, CommitLoad(writer + 1, commits), writer, SystemClock(), lambda: None)


def test_a_log_with_each_commit_in_order_is_complete(realm: Realm) -> None:
    _write(realm, 0, 3)
    _write(realm, 1, 3)
    assert log_is_complete(realm, CommitLoad(2, 3))


def test_a_log_without_one_commit_is_not_complete(realm: Realm) -> None:
    _write(realm, 0, 3)
    _write(realm, 1, 2)
    assert not log_is_complete(realm, CommitLoad(2, 3))


def test_a_log_with_a_commit_twice_is_not_complete(realm: Realm) -> None:
    _write(realm, 0, 1)
    _write(realm, 0, 2)
    assert not log_is_complete(realm, CommitLoad(1, 2))


def test_a_log_that_went_back_is_not_complete(realm: Realm) -> None:
    _write(realm, 0, 2)
    head = realm.references.fetch("bench/0")
    assert realm.references.swap(head, head.recent[0]) is not None
    assert not log_is_complete(realm, CommitLoad(1, 2))
