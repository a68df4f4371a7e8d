"""The log of maintenance runs, in the system realm of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.errors import NotFoundError
from lakesweep.maintenance.run_records import (
    MAINTENANCE_RUNS,
    MaintenanceCommit,
    MaintenanceRunInformation,
)
from lakesweep.runs.log_reference import LogReference, find_run
from lakesweep.runs.records import RunStatus
from lakesweep.runs.sessions import LEASE_LOST
from lakesweep.store import LINKS, Attempt, Change, Link, Realm, key, seal


@dataclass(frozen=True, slots=True)
class MaintenanceRuns:
    """Maintenance runs; the newest `retained` are kept. Each change is one commit."""

    system: Realm
    clock: Clock
    retained: int

    def list(self) -> Iterator[MaintenanceRunInformation]:
        """Runs, newest first."""
        index = self.system.index(self._log.head().runs, LINKS)
        links = [link for _, link in index.prefix(b"", reverse=True)]
        return self._log.fetch(links, MaintenanceRunInformation)

    def get(self, run: str) -> MaintenanceRunInformation:
        """One run. NotFoundError if there is none with that name."""
        return find_run(self.list(), run)

    def put(self, run: MaintenanceRunInformation) -> None:
        """Record the progress or the end of a run, unless its end is recorded already."""

        def change(
            attempt: Attempt[MaintenanceCommit], head: MaintenanceCommit
        ) -> MaintenanceCommit | None:
            runs = attempt.index(head.runs, LINKS)
            place = key(run.started_at, run.run)
            before = runs.get(place)
            known = None if before is None else attempt.fetch(before, MaintenanceRunInformation)
            if known is not None and known.status is not RunStatus.RUNNING:
                return None
            runs.put(place, attempt.write(run))
            attempt.record(Change("add" if before is None else "update", key("run", run.run)))
            for old in self._surplus([found for found, _ in runs.items()]):
                runs.remove(old)
                attempt.record(Change("remove", old))
            return msgspec.structs.replace(head, runs=seal(runs))

        self._log.commit(change, f"{run.run} is {run.status}")

    def bury(self, run: str) -> None:
        """Record that a run that lost its lease is dead, unless its end is recorded."""
        try:
            found = self.get(run)
        except NotFoundError:
            return  # it died before it recorded anything
        finished = micros(self.clock.now())
        self.put(
            msgspec.structs.replace(
                found, status=RunStatus.DEAD, status_message=LEASE_LOST, finished_at=finished
            )
        )

    def lease(self) -> int:
        """The object that is the lease of the store, created on first use."""
        known = self._log.head().lease
        if known is None:
            known = self._log.add_lease(_link_lease, "a lease for maintenance")
        return self.lease() if known is None else known

    def _surplus(self, places: Sequence[bytes]) -> Sequence[bytes]:
        return places[: max(0, len(places) - self.retained)]

    @property
    def _log(self) -> LogReference[MaintenanceCommit]:
        return LogReference(self.system, MAINTENANCE_RUNS, MaintenanceCommit)


def _link_lease(
    _: Attempt[MaintenanceCommit], head: MaintenanceCommit, lease: Link
) -> MaintenanceCommit | None:
    return None if head.lease is not None else msgspec.structs.replace(head, lease=lease)
