"""Many writers that commit to one reference of one database."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from lakesweep.clock import SystemClock
from lakesweep.store.backends.urls import open_backend
from tests.stores import CountingIds, Note, Writer, add, open_writer

COMMITS = 20


def _processes(writers: int) -> Executor:
    # Each has the variables of now: servers and their credentials come test by test.
    return ProcessPoolExecutor(writers, mp_context=multiprocessing.get_context("spawn"))


def _open(url: str, number: int, writers: int) -> Writer:
    """A writer that waits for no other one's turn, be it in the same process."""
    ids = CountingIds(1 + number, writers)
    return open_writer(open_backend(url), ids=ids, clock=SystemClock())


def _work(url: str, number: int, writers: int) -> None:
    writer = _open(url, number, writers)
    for deed in range(COMMITS):
        writer.commits.commit("main", Note, add(f"{number}:{deed}"))
    writer.backend.close()


@pytest.mark.parametrize(
    ("pool_of", "writers"), [(ThreadPoolExecutor, 8), (_processes, 4)], ids=["threads", "processes"]
)
def test_writers_commit_to_one_reference_without_a_failure(
    url: str, pool_of: Callable[[int], Executor], writers: int
) -> None:
    reader = _open(url, 0, 1)
    reader.backend.init_schema()
    reader.references.create("main")
    with pool_of(writers) as pool:
        list(pool.map(_work, [url] * writers, range(writers), [writers] * writers))
    log = list(reader.log.oldest_first("main"))
    assert [commit.value.seq for commit in log] == list(range(1, writers * COMMITS + 1))
    assert list(reader.log.newest_first("main")) == log[::-1]
    deeds = defaultdict(list)
    for commit in log:
        number, deed = commit.value.changes[0].key.decode().split(":")
        deeds[number].append(int(deed))
    assert list(deeds.values()) == [list(range(COMMITS))] * writers
    # A head and a paper for each commit, and nothing of all the attempts that were lost.
    assert len(list(reader.backend.scan_rows("acme"))) == 2 * writers * COMMITS
    reader.backend.close()
