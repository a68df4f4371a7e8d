"""A run from start to end: take the lease, record the run, record how it ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError, NotFoundError, RefusedError
from lakesweep.progress_board import ProgressBoard
from lakesweep.redaction import masked
from lakesweep.runs.leases import HeldLease, keep_renewing, take_lease
from lakesweep.runs.live_records import LiveLinks, LiveTeller, keep_telling
from lakesweep.runs.records import RunKind, RunRecord, RunStatus, new_name
from lakesweep.runs.run_figures import Recorded
from lakesweep.runs.run_log import RunLog, system_user
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.wrappers.used_load import UsedLoad
from lakesweep.store import Realm
from lakesweep.tracing import span

R = TypeVar("R")

#: The message of a run that ended without recording how.
LEASE_LOST = "its lease expired or was taken over"


class RunRecorder(Protocol[R]):
    """Records one run in its log. Every method may be repeated after a crash."""

    def bury(self, run: str) -> None:
        """Record that an earlier run is dead, unless its end is recorded."""
        ...

    def begin(self) -> R:
        """Record that this run has started, and return what it works with."""
        ...

    def finish(self, run: R, error: BaseException | None) -> None:
        """Record how this run ended; `error` is what ended it early."""
        ...


@contextmanager
def recorded(lease: HeldLease, recorder: RunRecorder[R]) -> Iterator[R]:
    """Hold a lease and record a run while the block runs.

    The lease is given back only after the end of the run is recorded. If that fails, the lease
    expires, and its next holder records that this run is dead.
    """
    with keep_renewing(lease):
        # First, while nothing of this run is recorded: a crash here leaves the lease to end, and
        # the next holder buries the same run again.
        if lease.dead is not None:
            recorder.bury(lease.dead)
        # From here on the lease is not given back unless the end is recorded. If this process dies,
        # the next holder sees whose lease it was, and records that run as dead.
        lease.is_abandoned = True
        run = recorder.begin()
        try:
            yield run
        except BaseException as error:
            with suppress(LakesweepError):
                recorder.finish(run, error)
                lease.is_abandoned = False
            raise
        recorder.finish(run, None)
        lease.is_abandoned = False


@dataclass
class Session:
    """One run in progress. It ends as `done` unless its owner sets another status."""

    record: RunRecord
    lease: HeldLease
    started: datetime
    status: RunStatus = RunStatus.DONE
    message: str = ""
    figures: Recorded = field(default_factory=dict)
    #: Who tells the store how far it is.
    teller: LiveTeller | None = None
    #: What this process had used before.
    used: UsedLoad = field(default_factory=UsedLoad)


@contextmanager
def run_session(
    runs: RunLog,
    lake: str,
    kind: RunKind,
    *,
    plan: str | None = None,
    spec: Mapping[str, Any],
    plans: str | None = None,
) -> Iterator[Session]:
    """Hold the lease of a lake and record a run. LeaseHeldError if the lease is not free.

    Tasks report what they used below `plans`, the folder of the lake's plans.
    """
    started = runs.clock.now()
    name = new_name(kind, runs.clock)
    subject = f"lake {lake}"
    lease = take_lease(runs.realm, runs.clock, subject, runs.lake(lake).lease, name, holder_name())

    def begin() -> Session:
        record = runs.begin(lake, kind, name=name, plan=plan, spec=spec, token=lease.token)
        session = Session(record, lease, started)
        if runs.load is not None:
            session.used = runs.load().counter.used()
            runs.load().folder = None if plans is None else f"{plans}/load-{name}"
        return session

    with (
        span(f"run {kind}", lake=lake, run=name),
        recorded(lease, _LakeRunRecorder(runs, begin)) as session,
        telling(runs.realm, runs.clock, runs.board, session.record.live) as session.teller,
    ):
        yield session


@contextmanager
def telling(
    realm: Realm, clock: Clock, board: ProgressBoard | None, links: LiveLinks | None
) -> Iterator[LiveTeller | None]:
    """Tell the store how far a run is while the block runs, if it has where to tell it."""
    if board is None or links is None:
        yield None
        return
    with keep_telling(LiveTeller(realm, clock, board, links)) as teller:
        yield teller


def cancelled_status(status: RunStatus, teller: LiveTeller | None) -> tuple[RunStatus, str | None]:
    """The status of a run that stopped, and who cancelled it, if that is why."""
    by = None if teller is None or status is not RunStatus.STOPPED else teller.look()
    return (status, None) if by is None else (RunStatus.CANCELLED, f"cancelled by {by}")


@dataclass(frozen=True, slots=True)
class _LakeRunRecorder:
    """Records a run of a lake."""

    runs: RunLog
    start: Callable[[], Session]

    def bury(self, run: str) -> None:
        with suppress(NotFoundError):  # it died before it recorded anything
            record = self.runs.get(run)
            if record.status is RunStatus.RUNNING:
                self.runs.finish(record, RunStatus.DEAD, record.figures, LEASE_LOST)

    def begin(self) -> Session:
        return self.start()

    def finish(self, run: Session, error: BaseException | None) -> None:
        if error is not None:
            run.status = status_after(error)
            run.message = masked(_words(error))
        run.status, why = cancelled_status(run.status, run.teller)
        run.message = why or run.message
        self.runs.finish(run.record, run.status, {**run.figures, **self._load(run)}, run.message)

    def _load(self, run: Session) -> Recorded:
        """What the run asked of stores and catalogs."""
        if self.runs.load is None:
            return {}
        load = self.runs.load()
        used = load.used().since(run.used)
        if load.tasks and load.opener is not None and load.folder is not None:
            remove_folder(load.opener, load.folder)
        load.folder = None
        return {"load": msgspec.to_builtins(used)}


def _words(error: BaseException) -> str:
    """What ended a run, for people."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    return str(error) or type(error).__name__


def status_after(error: BaseException) -> RunStatus:
    """The status of a run that this error ended."""
    match error:
        case RefusedError():
            return RunStatus.REFUSED
        case KeyboardInterrupt():
            return RunStatus.STOPPED
        case _:
            return RunStatus.FAILED


def user_name() -> str:
    """The user of this process and its machine, for records of who decided what."""
    return f"{system_user()}@{socket.gethostname()}"


def holder_name() -> str:
    """The name of this process, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"
