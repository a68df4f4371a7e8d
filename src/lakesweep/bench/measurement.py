"""One measurement in a temporary realm: run the writers, check the log, compute the figures."""

from __future__ import annotations

import math
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakesweep.bench.processes import (
    BENCH_TYPES,
    CommitLoad,
    WriterResult,
    run_in_processes,
    run_writer,
    warm_up,
)
from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import RealmMissingError
from lakesweep.progress import SILENT, Progress
from lakesweep.store.commits.commit import Commit
from lakesweep.store.index.keys import decode
from lakesweep.store.objects.objects import Stored
from lakesweep.store.realms.purge import RealmPurger
from lakesweep.store.realms.realm import Realm
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.store import Store


def run_bench(
    url: str,
    load: CommitLoad,
    *,
    threads: bool = False,
    clock: Clock | None = None,
    progress: Progress = SILENT,
) -> BenchResult:
    """Measure commits in processes, or in threads of this one; a store in memory knows no other."""
    clock = clock or SystemClock()
    with (
        Store.open(url, types=BENCH_TYPES, clock=clock) as store,
        _own_realm(store, clock) as realm,
    ):
        realm.references.ensure([load.reference(writer) for writer in range(load.writers)])
        if threads or not store.backend.capabilities.durable:
            works, seconds = run_in_threads(realm, load, clock, progress)
        else:
            works, seconds = run_in_processes(url, realm.name, load, clock, progress)
        return summarize(load, works, seconds, log_complete=log_is_complete(realm, load))


@contextmanager
def _own_realm(store: Store, clock: Clock) -> Iterator[Realm]:
    """A realm of its own for the benchmark, which is deleted in any case."""
    name = f"bench-{secrets.token_hex(6)}"
    try:
        yield store.create_realm(name)
    finally:
        _end(store, name, clock)


def _end(store: Store, name: str, clock: Clock) -> None:
    try:
        realm = store.realms.get(name)
    except RealmMissingError:
        return
    if realm.status is RealmStatus.ACTIVE:
        realm = store.realms.move(realm, RealmStatus.INACTIVE)
    # All writers have ended, so no process has an old view of the realm.
    purging = RealmPurger(store.realms, store.backend, clock, settle_seconds=0)
    purging.delete(purging.purge(realm))


class _StoppedError(Exception):
    """The work was abandoned."""


def run_in_threads(
    realm: Realm, load: CommitLoad, clock: Clock, progress: Progress
) -> tuple[Sequence[WriterResult], float]:
    """What each writer did, and in how many seconds all of them were done."""
    stop = threading.Event()
    with ThreadPoolExecutor(load.writers) as pool:
        list(pool.map(partial(warm_up, realm), range(load.writers)))
        with progress.task("committed", total=load.total, unit="commits") as task:

            def report() -> None:
                if stop.is_set():
                    raise _StoppedError
                task.advance(1)

            began = clock.monotonic()
            try:
                write = partial(run_writer, realm, load, clock=clock, report=report)
                works = list(pool.map(write, range(load.writers)))
            finally:
                stop.set()
            return works, clock.monotonic() - began


def log_is_complete(realm: Realm, load: CommitLoad) -> bool:
    """Whether the logs, read in both directions, hold each commit of each writer in its order."""
    of_writer: dict[Any, list[Any]] = defaultdict(list)
    for reference in sorted({load.reference(writer) for writer in range(load.writers)}):
        forth = _read(realm.log(reference, oldest_first=True))
        back = _read(realm.log(reference))
        if back[::-1] != forth or [seq for seq, *_ in forth] != [*range(1, len(forth) + 1)]:
            return False
        for _, writer, number in forth:
            of_writer[writer].append(number)
    expected = [*range(1, load.commits + 1)]
    return of_writer == dict.fromkeys(range(load.writers), expected)


def _read(log: Iterable[Stored[Commit]]) -> list[tuple[Any, ...]]:
    """The place of each commit, its writer, and its number."""
    return [(commit.value.seq, *decode(commit.value.changes[0].key)) for commit in log]


@dataclass(frozen=True, slots=True)
class BenchResult:
    """How a load went. Times are those of single commits, with all their attempts."""

    writers: int
    references: int
    commits: int
    failures: int
    seconds: float
    commits_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    attempts_per_commit: float | None
    log_complete: bool
    errors: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether every commit was done, and is in the log."""
        return self.failures == 0 and self.log_complete


def summarize(
    load: CommitLoad, works: Sequence[WriterResult], seconds: float, *, log_complete: bool
) -> BenchResult:
    """The figures of all writers, over the measured seconds."""
    times = sorted(time for work in works for time in work.seconds)
    attempts = sum(work.attempts for work in works)
    return BenchResult(
        writers=load.writers,
        references=load.references,
        commits=len(times),
        failures=load.total - len(times),
        seconds=round(seconds, 3),
        commits_per_second=round(len(times) / max(seconds, 1e-9), 1),
        p50_ms=_share_ms(times, 0.5),
        p99_ms=_share_ms(times, 0.99),
        max_ms=_share_ms(times, 1.0),
        attempts_per_commit=round(attempts / len(times), 3) if times else None,
        log_complete=log_complete,
        errors=tuple(dict.fromkeys(error for work in works for error in work.errors)),
    )


def _share_ms(times: Sequence[float], share: float) -> float | None:
    """The least time within which this share of all commits was done."""
    if not times:
        return None
    return round(1000 * times[math.ceil(share * len(times)) - 1], 3)
