"""A run from start to end: take the lease, record the run, record how it ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakesweep.errors import LakesweepError, NotFoundError, RefusedError
from lakesweep.runs.leases import HeldLease, keep_renewing, take_lease
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.run_names import new_name


@dataclass
class Session:
    """One run that is under way. Whoever runs it says how it ends; `done` unless told."""

    record: RunRecord
    lease: HeldLease
    started: datetime
    status: RunStatus = RunStatus.DONE
    message: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


@contextmanager
def run_session(
    runs: RunLog, lake: str, kind: RunKind, *, plan: str | None = None, spec: Mapping[str, Any]
) -> Iterator[Session]:
    """Hold the lease of a lake and keep the record of a run. LeaseHeldError if it is not free."""
    started = runs.clock.now()
    name = new_name(kind, runs.clock)
    subject = f"lake {lake}"
    lease = take_lease(runs.realm, runs.clock, subject, runs.lake(lake).lease, name, holder_name())
    with keep_renewing(lease):
        _record_dead(runs, lease.dead)
        record = runs.begin(lake, kind, name=name, plan=plan, spec=spec, token=lease.token)
        session = Session(record, lease, started)
        try:
            yield session
        except BaseException as error:
            session.status, session.message = (
                status_after(error),
                str(error) or type(error).__name__,
            )
            with suppress(LakesweepError):
                _finish(runs, session)
            raise
        _finish(runs, session)


def _finish(runs: RunLog, session: Session) -> None:
    # A run of which nobody wrote down how it ended is dead to whoever takes its lease.
    session.lease.is_abandoned = True
    runs.finish(session.record, session.status, session.figures, session.message)
    session.lease.is_abandoned = False


def _record_dead(runs: RunLog, dead: str | None) -> None:
    """Say of a run whose lease ended by itself that it is dead."""
    if dead is None:
        return
    with suppress(NotFoundError):
        record = runs.get(dead)
        if record.status is RunStatus.RUNNING:
            runs.finish(record, RunStatus.DEAD, record.figures, "its lease ended by itself")


def status_after(error: BaseException) -> RunStatus:
    """How a run ended that ended with this error."""
    match error:
        case RefusedError():
            return RunStatus.REFUSED
        case KeyboardInterrupt():
            return RunStatus.STOPPED
        case _:
            return RunStatus.FAILED


def holder_name() -> str:
    """Who runs here, for people: this process."""
    return f"{socket.gethostname()}:{os.getpid()}"
