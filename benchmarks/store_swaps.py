"""Commits a second, alone and with 8 writers, against a bare `UPDATE … WHERE version =`.

The bare loop sends one statement after another to the driver, each durable by itself. A commit of
the store reads the reference, writes two objects, and swaps. Databases lie in a folder on disk, so
that what waits for the disk is counted; `--memory` puts them where nobody waits, so that only the
work of the processor is left.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import make_url

from lakesweep.bench import CommitLoad, run_bench
from lakesweep.bench.measurement import BenchResult
from lakesweep.bench.processes import BENCH_TYPES, run_writer, warm_up
from lakesweep.clock import SystemClock
from lakesweep.store import Store
from tests.database_servers import connect, mariadb_server, postgresql_server
from tests.processes import scratch_folder

# Few at a time, by turns, so that both meet the same moods of the disk and of the machine.
_COMMITS = 25
_MEMORY_COMMITS = 10_000
_MEMORY_ROUNDS = 3
_WRITERS = 8
_MANY_COMMITS = 150
_ROUNDS = 40
_HEADER = "  per second  ratio   p50 ms   p99 ms"
_SWAP = "UPDATE swaps SET version = {0}, pointer = {0} WHERE name = {0} AND version = {0}"

Execute = Callable[[str, tuple[Any, ...]], int]


def _sqlite(url: str) -> Execute:
    connection = sqlite3.connect(str(make_url(url).database), isolation_level=None, timeout=60)
    connection.execute("PRAGMA synchronous = FULL")
    return lambda text, values: connection.execute(text, values).rowcount


def _server(url: str) -> Execute:
    cursor = connect(url).cursor()

    def execute(text: str, values: tuple[Any, ...]) -> int:
        cursor.execute(text, values)
        return int(cursor.rowcount)

    return execute


class Bare:
    """Swaps of one row, without a store."""

    def __init__(self, execute: Execute, mark: str) -> None:
        table = "CREATE TABLE swaps (name VARCHAR(99) PRIMARY KEY, version BIGINT, pointer BIGINT)"
        execute(table, ())
        execute("INSERT INTO swaps VALUES ('main', 0, 0)", ())
        self._execute = execute
        self._swap = _SWAP.format(mark)
        self._version = 0

    def seconds(self) -> list[float]:
        """What each of a round of swaps took."""
        return [self._one() for _ in range(_COMMITS)]

    def _one(self) -> float:
        start, old = time.perf_counter(), self._version
        self._version += 1
        assert self._execute(self._swap, (self._version, old, "main", old)) == 1
        return time.perf_counter() - start


def _measure(title: str, url: str, open_raw: Callable[[str], Execute], mark: str) -> None:
    Store.create_tables(url)
    bare = Bare(open_raw(url), mark)
    swaps, commits = [], []
    with Store.open(url, types=BENCH_TYPES) as store:
        realm, load = store.create_realm("bench"), CommitLoad(writers=1, commits=_COMMITS)
        realm.references.ensure([load.reference(0)])
        warm_up(realm, 0)
        for _ in range(_ROUNDS):
            swaps.append(bare.seconds())
            commits.append(run_writer(realm, load, 0, SystemClock(), lambda: None).seconds)
    many = run_bench(url, CommitLoad(writers=_WRITERS, commits=_MANY_COMMITS))
    assert many.is_good, many
    print(f"\n{title:30}{_HEADER}")
    first = _show("bare UPDATE", swaps, None)
    _show("commits alone", commits, first)
    _line(f"{_WRITERS} processes, one reference", many.commits_per_second, first, many)
    print(f"{'':30}{many.attempts_per_commit} attempts a commit")


def _show(name: str, rounds: list[list[float]], first: float | None) -> float:
    every = sorted(second * 1e3 for seconds in rounds for second in seconds)
    assert len(every) == _COMMITS * _ROUNDS
    rate = 1e3 * len(every) / sum(every)
    p50, p99 = every[len(every) // 2], every[len(every) * 99 // 100]
    print(f"{name:30}{rate:>12,.0f}{rate / (first or rate):>6.2f}x{p50:>9.2f}{p99:>9.2f}")
    return rate


def _line(name: str, rate: float, first: float, result: BenchResult) -> None:
    print(f"{name:30}{rate:>12,.0f}{rate / first:>6.2f}x{result.p50_ms:>9.2f}{result.p99_ms:>9.2f}")


def _measure_memory() -> None:
    print(f"{'in the memory of the process':30}{_HEADER}")
    first = None
    for writers in (1, _WRITERS):
        load = CommitLoad(writers=writers, commits=_MEMORY_COMMITS // writers)
        results = [run_bench("memory:", load) for _ in range(_MEMORY_ROUNDS)]
        best = max(results, key=lambda each: each.commits_per_second)
        assert best.is_good, best
        first = first or best.commits_per_second
        name = "commits alone" if writers == 1 else f"{writers} threads, one reference"
        _line(name, best.commits_per_second, first, best)


@contextmanager
def _folder(*, in_memory: bool) -> Iterator[Path]:
    with scratch_folder("swaps") if in_memory else nullcontext() as given:
        if given is not None:
            yield given
            return
        with TemporaryDirectory() as folder:
            yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="let no database wait for a disk")
    in_memory = parser.parse_args().memory
    _measure_memory()
    with _folder(in_memory=in_memory) as folder:
        _measure("SQLite", f"sqlite:///{folder / 'store.db'}", _sqlite, "?")
    with _folder(in_memory=in_memory) as folder, postgresql_server(folder=folder) as server:
        _measure("PostgreSQL", server.new_database(), _server, "%s")
    with _folder(in_memory=in_memory) as folder, mariadb_server(folder=folder) as server:
        _measure("MariaDB", server.new_database(), _server, "%s")


if __name__ == "__main__":
    main()
