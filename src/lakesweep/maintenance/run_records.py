"""The log of maintenance runs, in the system realm of the store, and its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import add

import msgspec

from lakesweep.clock import Clock, micros, moment
from lakesweep.errors import NotFoundError
from lakesweep.runs import live_records
from lakesweep.runs.live_records import LiveLinks
from lakesweep.runs.log_reference import LogReference, find_run
from lakesweep.runs.records import LeaseRecord, RunStatus
from lakesweep.runs.sessions import LEASE_LOST
from lakesweep.store import (
    LINKS,
    NO_INDEX,
    Attempt,
    Change,
    Commit,
    IndexRoot,
    Link,
    Realm,
    key,
    seal,
)


class MaintenanceStats(msgspec.Struct, frozen=True):
    """References, or rows of objects: an object in parts counts once a part.

    What was `scanned` was `retained`, `newer` than the cut-off, or `unreferenced`. Of the latter
    some were `purged`, none of them by a dry run, and some `failed` to be; the rest was changed or
    deleted by another process in between.
    """

    scanned: int = 0
    retained: int = 0
    newer: int = 0
    unreferenced: int = 0
    purged: int = 0
    failed: int = 0

    def __add__(self, other: MaintenanceStats) -> MaintenanceStats:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return MaintenanceStats(*(mine + others for mine, others in pairs))


NOTHING = MaintenanceStats()


def total(stats: Iterable[MaintenanceStats]) -> MaintenanceStats:
    """All of them together."""
    return reduce(add, stats, NOTHING)


#: The reference of the system realm behind which all of it lies.
MAINTENANCE_RUNS = "maintenance-runs"
#: First and last id, both included.
Span = tuple[int, int]


class LiveFilterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The final false-positive rates of the filters, and their size."""

    reference_fpp: float
    object_fpp: float
    size_bytes: int
    filters: int

    @property
    def worst_fpp(self) -> float:
        return max(self.reference_fpp, self.object_fpp)


class MaintenanceRunInformation(msgspec.Struct, frozen=True, kw_only=True):
    """One run; moments are microseconds since 1970.

    `identified_references` and `identified_objs` are how often one was named as retained, by an
    identifier or by what leads to it; `distinct_references` and `distinct_objs` are how many these
    are. Runs of earlier versions have the distinct numbers in the first two. `purged_realms`
    counts those that the database deleted by itself, and `realms_purged` names all that are gone.
    `tidied` is what was removed by commits, by realm and kind. `remaining` are the ids not yet
    scanned, by realm, from which another run resumes if this one dies; `resumes` is the run that
    this one resumes, and whose figures it took over. `live` is where it tells how far it is, and
    `job` the scheduled job that it is a part of.
    """

    run: str
    token: int = 0
    started_at: int
    cut_off_at: int
    finished_at: int | None = None
    status: RunStatus = RunStatus.RUNNING
    status_message: str = ""
    detailed_information: str = ""
    is_dry_run: bool = False
    per_realm_reference_stats: dict[str, MaintenanceStats] = {}
    per_realm_per_obj_type_stats: dict[str, dict[str, MaintenanceStats]] = {}
    purged_realms: int = 0
    realms_purged: tuple[str, ...] = ()
    identified_references: int = 0
    identified_objs: int = 0
    distinct_references: int = 0
    distinct_objs: int = 0
    tidied: dict[str, dict[str, int]] = {}
    filters: LiveFilterFigures | None = None
    resumes: str | None = None
    remaining: dict[str, tuple[Span, ...]] = {}
    job: str | None = None
    live: LiveLinks | None = None

    @property
    def started(self) -> datetime:
        return moment(self.started_at)

    @property
    def finished(self) -> datetime | None:
        return None if self.finished_at is None else moment(self.finished_at)

    @property
    def success(self) -> bool:
        """Whether everything was done."""
        return self.status is RunStatus.DONE

    @property
    def reference_stats(self) -> MaintenanceStats:
        """Of the references of all realms."""
        return total(self.per_realm_reference_stats.values())

    @property
    def obj_stats(self) -> MaintenanceStats:
        """Of the rows of objects of all realms."""
        return total(
            stats
            for types in self.per_realm_per_obj_type_stats.values()
            for stats in types.values()
        )


class MaintenanceCommit(Commit, frozen=True, kw_only=True):
    """The head of MAINTENANCE_RUNS. `runs` leads from start and run to what is known of it."""

    lease: Link | None = None
    runs: IndexRoot = NO_INDEX


#: The types that a store must know to hold all this.
TYPES: Mapping[str, type[msgspec.Struct]] = {
    "maintenance-runs": MaintenanceCommit,
    "maintenance-run": MaintenanceRunInformation,
    "sweep-lease": LeaseRecord,
    **live_records.TYPES,
}


@dataclass(frozen=True, slots=True)
class MaintenanceRuns:
    """Maintenance runs; the newest `retained` are kept. Each change is one commit."""

    system: Realm
    clock: Clock
    retained: int

    def list(self) -> Iterator[MaintenanceRunInformation]:
        """Runs, newest first."""
        index = self.system.index(self._log.head().runs, LINKS)
        links = (link for _, link in index.prefix(b"", reverse=True))
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
