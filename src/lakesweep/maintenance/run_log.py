"""The log of maintenance runs, in the system realm of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from lakesweep.clock import Clock
from lakesweep.errors import NotFoundError, ReferenceMissingError
from lakesweep.maintenance.run_records import (
    MAINTENANCE_RUNS,
    MaintenanceCommit,
    MaintenanceRunInformation,
)
from lakesweep.runs.records import LeaseRecord, RunStatus
from lakesweep.store import LINKS, Attempt, Change, Link, Realm, key, seal
from lakesweep.timestamps import micros

_NO_LEASE = LeaseRecord(token=0, run="", holder="", expires_at=0)
_PAGE_RUNS = 100


@dataclass(frozen=True, slots=True)
class MaintenanceRuns:
    """Runs of maintenance, of which the newest `retained` are remembered. A change is a commit."""

    system: Realm
    clock: Clock
    retained: int

    def list(self) -> Iterator[MaintenanceRunInformation]:
        """Runs, newest first."""
        index = self.system.index(self._head().runs, LINKS)
        links = [link for _, link in index.prefix(b"", reverse=True)]
        for start in range(0, len(links), _PAGE_RUNS):
            page = links[start : start + _PAGE_RUNS]
            found = self.system.objects.fetch_many(page, MaintenanceRunInformation)
            yield from (each.value for each in found if each is not None)

    def get(self, run: str) -> MaintenanceRunInformation:
        """One run. NotFoundError if there is none of that name."""
        for found in self.list():
            if found.run == run:
                return found
        raise NotFoundError(f"there is no run {run}", hint="lakesweep runs lists them")

    def put(self, run: MaintenanceRunInformation) -> None:
        """Remember how far a run is; unless somebody said meanwhile that it is over."""

        def change(attempt: Attempt[MaintenanceCommit]) -> MaintenanceCommit | None:
            head = attempt.head or MaintenanceCommit()
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

        self._commit(change, f"{run.run} is {run.status}")

    def bury(self, run: str | None) -> MaintenanceRunInformation | None:
        """Say of a run that lost its lease that it is dead; what it had done by then."""
        try:
            found = None if run is None else self.get(run)
        except NotFoundError:
            return None  # it died before it wrote anything down
        if found is None or found.status is not RunStatus.RUNNING:
            return None
        words = "its lease ended by itself, or was taken from it"
        finished = micros(self.clock.now())
        self.put(
            msgspec.structs.replace(
                found, status=RunStatus.DEAD, status_message=words, finished_at=finished
            )
        )
        return found

    def lease(self) -> int:
        """The object that is the lease of the store; made where there is none."""
        known = self._head().lease
        return self._add_lease() if known is None else known

    def _add_lease(self) -> int:
        # The lease is written before anything leads to it, so no link ever leads nowhere.
        lease = self.system.objects.insert(self.system.new_id(), _NO_LEASE)
        assert lease is not None  # nobody has had this id

        def change(attempt: Attempt[MaintenanceCommit]) -> MaintenanceCommit | None:
            head = attempt.head or MaintenanceCommit()
            if head.lease is not None:
                return None
            return msgspec.structs.replace(head, lease=Link(lease.id))

        if self._commit(change, "a lease for maintenance"):
            return lease.id
        self.system.objects.remove(lease)
        return self.lease()

    def _surplus(self, places: Sequence[bytes]) -> Sequence[bytes]:
        return places[: max(0, len(places) - self.retained)]

    def _commit(
        self, change: Callable[[Attempt[MaintenanceCommit]], MaintenanceCommit | None], words: str
    ) -> bool:
        self.system.references.ensure([MAINTENANCE_RUNS])
        return self.system.commit(
            MAINTENANCE_RUNS, change, MaintenanceCommit, message=words
        ).changed

    def _head(self) -> MaintenanceCommit:
        try:
            head = self.system.head(MAINTENANCE_RUNS, MaintenanceCommit, fresh=True)
        except ReferenceMissingError:
            return MaintenanceCommit()  # maintenance was never run here
        return head.value if head else MaintenanceCommit()
