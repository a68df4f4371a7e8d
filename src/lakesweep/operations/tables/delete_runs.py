"""Deletes without a plan as runs: purges, and partitions that are dropped.

Each is recorded in the store with what it did, under a lease. A purge in the locations of a lake
takes the lease of that lake and locks its locations, so that no apply deletes there at the same
time, here or on another machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.app import App
from lakesweep.runs.records import table_lake
from lakesweep.runs.run_figures import recorded_figures
from lakesweep.sweep.paths.folder_map import claimed_folder

if TYPE_CHECKING:
    from lakesweep.runs.fencing import RequestFence
    from lakesweep.runs.records import RunKind
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
    from lakesweep.storage.deleting.quarantine_store import QuarantineFolders


@dataclass
class DeleteRun:
    """A run in progress. `fence` keeps requests back once its lease is lost."""

    sessions: Sequence[Session]
    fence: RequestFence

    def record(self, figures: Mapping[str, Any], *, failed: int = 0) -> None:
        """Record what was done."""
        from lakesweep.runs.records import RunStatus

        for session in self.sessions:
            session.figures = dict(figures)
            session.status = RunStatus.INCOMPLETE if failed else RunStatus.DONE

    @contextmanager
    def counting(self, totals: OutcomeTotals) -> Iterator[None]:
        """Record the outcomes of the block, however it ends. A lease that was lost is an error."""
        try:
            yield
        finally:
            self.record(recorded_figures(totals.report()), failed=totals.failed)
        if self.fence.ended is not None:
            raise self.fence.ended


@contextmanager
def purge_run(
    app: App, job: str, locations: Sequence[str], spec: Mapping[str, Any]
) -> Iterator[DeleteRun]:
    """A purge of files in some locations. LeaseHeldError if another run works in their lakes."""
    # A dry run needs no store, and loading one takes longer than most purges.
    from lakesweep.runs.location_lock import lock_locations
    from lakesweep.runs.records import RunKind

    lakes = sorted(_lakes_around(app, locations))
    with ExitStack() as stack:
        names = lakes or [table_lake(job, locations[0])]
        run = stack.enter_context(_run(app, names, RunKind.PURGE, spec))
        for name, session in zip(lakes, run.sessions, strict=False):
            places = app.config.lakes[name].locations
            stack.enter_context(lock_locations(app.stores, app.runs, places, session))
        yield run


@contextmanager
def table_run(
    app: App, job: str, table: str, kind: RunKind, spec: Mapping[str, Any], plan: str | None = None
) -> Iterator[DeleteRun]:
    """A change of one table, perhaps by a stored plan."""
    with _run(app, [table_lake(job, table)], kind, spec, plan) as run:
        yield run


@contextmanager
def _run(
    app: App, lakes: Sequence[str], kind: RunKind, spec: Mapping[str, Any], plan: str | None = None
) -> Iterator[DeleteRun]:
    from lakesweep.runs.fencing import RequestFence
    from lakesweep.runs.sessions import run_session

    with ExitStack() as stack:
        sessions = [
            stack.enter_context(run_session(app.runs, lake, kind, plan=plan, spec=spec))
            for lake in lakes
        ]
        # Leases are renewed together; the first to end holds back all requests.
        until = [session.lease.verified_until for session in sessions]
        yield DeleteRun(sessions, RequestFence(lambda: min(each() for each in until), app.clock))


def quarantine_of_table(app: App, location: str, plan: str) -> QuarantineFolders:
    """Where files of a table go that a plan sets aside: where its lakes have them, if any does."""
    from lakesweep.storage.deleting.quarantine_store import QuarantineFolders

    lakes = [app.lake(name) for name in _lakes_around(app, [location])]
    places = {each: lake.quarantine(each) for lake in lakes for each in lake.locations}
    if not lakes:
        places[location] = f"{location.rstrip('/')}/_lakesweep/quarantine"
    return QuarantineFolders.of((each, f"{folder}/{plan}") for each, folder in places.items())


def plans_of_table(app: App, location: str) -> str:
    """The folder of the plans of a table: that of its lake, if it is in one."""
    lakes = [app.lake(name) for name in _lakes_around(app, [location])]
    return lakes[0].plans if lakes else f"{app.plans}/tables"


def _lakes_around(app: App, locations: Sequence[str]) -> Iterator[str]:
    """The lakes that some locations overlap."""
    wanted = [claimed_folder(location) for location in locations]
    for name, lake in app.config.lakes.items():
        held = [claimed_folder(location) for location in lake.locations]
        if any(a.startswith(b) or b.startswith(a) for a in wanted for b in held):
            yield name
