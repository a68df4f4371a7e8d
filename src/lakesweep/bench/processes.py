"""The load of a benchmark, and its writers as processes, each with a store of its own.

A writer reports over a pipe that it is ready, waits for the start signal, then reports its
progress and finally its result. Either side closes its end of the pipe when it exits, so a writer
whose parent is gone exits as well and releases its node.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import LakesweepError
from lakesweep.progress import Progress, ProgressTask
from lakesweep.store.commits.commit import Change, Commit
from lakesweep.store.commits.committer import Attempt
from lakesweep.store.index.keys import key
from lakesweep.store.objects.links import Link
from lakesweep.store.realms.realm import Realm
from lakesweep.store.store import Store

_READY = "ready"
#: A writer tells how far it is no more often than this.
_REPORT_SECONDS = 0.2
#: How long a writer may take to finish its commit after it was told to stop.
_PATIENCE_SECONDS = 10.0
#: What a commit writes besides its head.
_DATA = bytes(range(200))
#: Errors that are kept to be shown.
_SHOWN_ERRORS = 5


class BenchObject(msgspec.Struct, frozen=True):
    """What comes with each commit."""

    data: bytes


class BenchHead(Commit, frozen=True, kw_only=True):
    """The head of a reference that is written to."""

    newest: Link


BENCH_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "bench-object": BenchObject,
    "bench-head": BenchHead,
}


@dataclass(frozen=True, slots=True)
class CommitLoad:
    """The number of writers, commits per writer, and references to spread them over."""

    writers: int = 8
    commits: int = 500
    references: int = 1

    def __post_init__(self) -> None:
        if min(self.writers, self.commits, self.references) < 1:
            raise ValueError("a load has at least one writer, one commit and one reference")

    @property
    def total(self) -> int:
        return self.writers * self.commits

    def reference(self, writer: int) -> str:
        """The reference that a writer commits to."""
        return f"bench/{writer % self.references}"


@dataclass(slots=True)
class WriterResult:
    """What became of the commits of one writer: the seconds of each that was done."""

    writer: int
    seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    errors: list[str] = field(default_factory=list)

    def note_error(self, message: str) -> None:
        if len(self.errors) < _SHOWN_ERRORS:
            self.errors.append(message)


def warm_up(realm: Realm, writer: int) -> None:
    """Connect, and lease a node for ids, so that no commit that is measured has to."""
    name = f"warm-up/{writer}"
    realm.references.ensure([name])
    realm.commit(name, _commit_as(writer, 0), BenchHead)


def run_writer(
    realm: Realm, load: CommitLoad, writer: int, clock: Clock, report: Callable[[], None]
) -> WriterResult:
    """Commit as often as the load says; `report` is called after each."""
    done, reference = WriterResult(writer), load.reference(writer)
    for number in range(1, load.commits + 1):
        began = clock.monotonic()
        try:
            committed = realm.commit(reference, _commit_as(writer, number), BenchHead)
        except LakesweepError as error:
            done.note_error(error.message)
        else:
            done.seconds.append(clock.monotonic() - began)
            done.attempts += committed.attempts
        report()
    return done


def _commit_as(writer: int, number: int) -> Callable[[Attempt[Any]], BenchHead]:
    def change(attempt: Attempt[Any]) -> BenchHead:
        attempt.record(Change("add", key(writer, number)))
        return BenchHead(newest=attempt.write(BenchObject(_DATA)))

    return change


@dataclass(frozen=True, slots=True)
class _Job:
    """What one writer is told."""

    url: str
    realm: str
    load: CommitLoad
    writer: int
    #: For drivers, which find credentials there: what writers come from may be older than these.
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Hand:
    """One writer, as its parent sees it."""

    writer: int
    process: BaseProcess
    pipe: Connection


def run_in_processes(
    url: str, realm: str, load: CommitLoad, clock: Clock, progress: Progress
) -> tuple[Sequence[WriterResult], float]:
    """What each writer did, and in how many seconds all of them were done."""
    jobs = [_Job(url, realm, load, writer, dict(os.environ)) for writer in range(load.writers)]
    with _hands(jobs) as hands:
        answers = [(hand, _receive(hand)) for hand in hands]
        ready = [hand for hand, answer in answers if answer == _READY]
        works = [answer for _, answer in answers if isinstance(answer, WriterResult)]
        with progress.task("committed", total=load.total, unit="commits") as task:
            began = clock.monotonic()
            for hand in ready:
                hand.pipe.send(_READY)
            works += _gather(ready, task)
            return works, clock.monotonic() - began


def _gather(hands: Sequence[_Hand], task: ProgressTask) -> Iterator[WriterResult]:
    pending = {hand.pipe: hand for hand in hands}
    while pending:
        for pipe in wait([*pending]):
            assert isinstance(pipe, Connection)
            answer = _receive(pending[pipe])
            if isinstance(answer, int):
                task.advance(answer)
            elif isinstance(answer, WriterResult):
                del pending[pipe]
                yield answer


def _receive(hand: _Hand) -> object:
    try:
        return hand.pipe.recv()
    except (EOFError, OSError):
        hand.process.join(_PATIENCE_SECONDS)
        message = f"writer {hand.writer} ended with code {hand.process.exitcode}"
        return WriterResult(hand.writer, errors=[message])


@contextmanager
def _hands(jobs: Sequence[_Job]) -> Iterator[Sequence[_Hand]]:
    hands: list[_Hand] = []
    try:
        with _deaf():
            hands.extend(map(_start, jobs))
        yield hands
    finally:
        for hand in hands:
            hand.pipe.close()
        for hand in hands:
            _end(hand.process)


def _start(job: _Job) -> _Hand:
    context = fresh_processes()
    ours, theirs = context.Pipe()
    process = context.Process(target=_write, args=(job, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Hand(job.writer, process, ours)


def fresh_processes() -> ForkServerContext | SpawnContext:
    """Processes that share no connection with this one, unlike forks of it.

    If possible they are forks of a server process that has loaded the store and opened nothing, so
    that not each of them loads it. They do not see variables that were set after its start.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__, "lakesweep.store.backends.sql.backend"])
    return context


def _end(process: BaseProcess) -> None:
    process.join(_PATIENCE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that are started here ignore interrupts: their parent decides for them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(job: _Job, pipe: Connection) -> None:
    """The whole life of a writer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent decides when it ends
    os.environ.update(job.environment)
    with suppress(EOFError, OSError):  # the parent no longer waits for results
        try:
            with Store.open(job.url, types=BENCH_TYPES) as store:
                _work(store, job, pipe)
        except LakesweepError as error:
            pipe.send(WriterResult(job.writer, errors=[error.message]))


def _work(store: Store, job: _Job, pipe: Connection) -> None:
    realm, clock = store.realm(job.realm), SystemClock()
    warm_up(realm, job.writer)
    pipe.send(_READY)
    pipe.recv()
    reports = _Reports(pipe, clock)
    done = run_writer(realm, job.load, job.writer, clock, reports.one_more)
    reports.tell()
    pipe.send(done)


class _Reports:
    """Tells the parent how many commits there were since it was last told."""

    def __init__(self, pipe: Connection, clock: Clock) -> None:
        self._pipe = pipe
        self._clock = clock
        self._count = 0
        self._told = clock.monotonic()

    def one_more(self) -> None:
        self._count += 1
        if self._clock.monotonic() - self._told >= _REPORT_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._pipe.send(self._count)
        self._count, self._told = 0, self._clock.monotonic()
