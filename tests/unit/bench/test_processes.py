"""Processes that commit to one reference of one SQLite file."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from lakesweep.bench.processes import fresh_processes
from lakesweep.clock import SystemClock
from lakesweep.store.backends.sql.backend import SqlBackend
from tests.stores import CountingIds, Note, Writer, add, open_writer

PROCESSES = 4
COMMITS = 100


def _open(path: Path, process: int) -> Writer:
    backend = SqlBackend(f"sqlite:///{path}")
    backend.init_schema()
    return open_writer(backend, ids=CountingIds(1 + process, PROCESSES), clock=SystemClock())


def _work(path: Path, process: int) -> int:
    writer = _open(path, process)
    for number in range(COMMITS):
        writer.commits.commit("main", Note, add(f"{process}:{number}"))
    writer.backend.close()
    return COMMITS


def test_processes_commit_to_one_reference_without_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writer = _open(path, 0)
    writer.references.create("main")
    with ProcessPoolExecutor(PROCESSES, mp_context=fresh_processes()) as pool:
        done = pool.map(_work, [path] * PROCESSES, range(PROCESSES))
        assert list(done) == [COMMITS] * PROCESSES
    log = list(writer.log.oldest_first("main"))
    assert [commit.value.seq for commit in log] == list(range(1, PROCESSES * COMMITS + 1))
    assert list(writer.log.newest_first("main")) == log[::-1]
    of_process = defaultdict(list)
    for commit in log:
        process, number = commit.value.changes[0].key.decode().split(":")
        of_process[process].append(int(number))
    assert list(of_process.values()) == [list(range(COMMITS))] * PROCESSES
    # A head and a paper for each commit, and nothing of all the attempts that were lost.
    assert len(list(writer.backend.scan_rows("acme"))) == 2 * PROCESSES * COMMITS
    writer.backend.close()


def _work_for_ever(path: Path, process: int) -> None:
    writer = _open(path, process)
    while True:
        writer.commits.commit("main", Note, lambda _: Note(done=(str(process),)))


def test_a_killed_writer_is_in_nobodys_way(tmp_path: Path) -> None:
    path, random = tmp_path / "store.db", Random(3)
    writer = _open(path, 0)
    writer.references.create("main")
    for round_ in range(3):
        victim = fresh_processes().Process(
            target=_work_for_ever, args=(path, 1 + round_ * 1_000_000)
        )
        victim.start()
        seen = writer.references.fetch("main").version
        while writer.references.fetch("main").version < seen + random.randint(5, 30):
            time.sleep(0.002)
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        before = [commit.value.seq for commit in writer.log.oldest_first("main")]
        assert before == list(range(1, len(before) + 1))
        committed = writer.commits.commit("main", Note, lambda _: Note(done=("after",)))
        assert committed.head is not None
        assert committed.head.value.seq == len(before) + 1
    writer.backend.close()
