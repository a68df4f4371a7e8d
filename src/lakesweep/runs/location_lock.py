"""A lock beside the data: only one run changes a location at a time, whatever its store.

The lease of a run lives in the store, and two machines may have two stores. So a run that
deletes also writes a lock object into each location, and rewrites it whenever its lease is
renewed. It looks for other locks after writing its own: of two runs that start together, at least
one sees the other, whatever the object store guarantees. The object store's clock tells how old
a lock is, so the clocks of the machines do not matter.

Locations of two stores may be nested. A run therefore also looks at the folders above its
location; one that works further out is noticed by the inner run at its next renewal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.errors import DeniedError, LakesweepError, LeaseHeldError, MissingError
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, HeldLease
from lakesweep.runs.records import LAKE_HOME, home_folder
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session, holder_name
from lakesweep.storage.address import Address, parse
from lakesweep.storage.object_store import ObjectStore, StoreOpener
from lakesweep.units import format_moment

#: Where locks are, below the home folder of a location.
LOCKS = "locks/"
#: A lock that has not been renewed for this long is stale: its run ended before, because it renews
#: the lock together with its lease.
STALE_AFTER = LEASE_TERM + CLOCK_MARGIN
#: A run that cannot renew its lock for this long must end.
_LOST_AFTER = (LEASE_TERM - CLOCK_MARGIN).total_seconds()

#: Whether a run is recorded in our own store.
IsOurs = Callable[[str], bool]


def _unknown(_: str) -> bool:
    return False


@dataclass
class LocationLock:
    """The lock of one run in a folder of locks. `around` are other folders that may hold locks.

    A run of our own store has ended if its lock is in the folder, because we hold the lease. One
    further out works on another lake, of which our configuration knows.
    """

    store: ObjectStore
    folder: str
    run: str
    around: tuple[str, ...] = ()
    is_ours: IsOurs = _unknown
    #: When it was written last, by the monotonic clock.
    renewed: float = field(default=0.0, init=False)

    @property
    def _key(self) -> str:
        return f"{self.folder}{self.run}"

    @property
    def _path(self) -> str:
        return f"{self.store.base}{self.folder}"

    def take(self) -> None:
        """Hold the location. LeaseHeldError if another run does, DeniedError if it is read-only."""
        try:
            self._write()
        except DeniedError as error:
            raise DeniedError(
                error.path,
                f"the lock of the location cannot be written: {error.reason}",
                hint=f"grant the right to write and delete below {self._path}; a run that deletes"
                " needs it, so that no other machine deletes there at the same time",
            ) from error
        if other := self._living_other():
            self.release()
            raise LeaseHeldError(
                f"{self._path} is locked by {other}",
                hint="wait for that run; if it is dead, its lock is stale"
                f" {STALE_AFTER.total_seconds():.0f} seconds after that time",
            )

    def renew(self, lease: HeldLease) -> None:
        """Hold it for longer. LeaseHeldError, and the lease is lost, if another run has it."""
        try:
            self.store.head(self._key)
            self._write()
            is_taken = bool(self._living_other())
        except MissingError:
            is_taken = True
        except LakesweepError:
            # Others take an old lock for stale, so the run ends before this one gets that old.
            lease.is_lost |= lease.clock.monotonic() - self.renewed > _LOST_AFTER
            raise
        if is_taken:
            self.release()
            lease.is_lost = True
            raise LeaseHeldError(f"{self.run}: another run has taken the lock {self._path}")
        self.renewed = lease.clock.monotonic()

    def written(self) -> datetime | None:
        """When the store wrote the lock, by its own clock."""
        return self.store.head(self._key).modified

    def release(self) -> None:
        """Let others begin at once."""
        self.store.delete([self._key])

    def _write(self) -> None:
        self.store.write(self._key, f"{self.run} ({holder_name()})".encode())

    def _living_other(self) -> str | None:
        """Who else holds the location; what dead runs left is removed."""
        own = self.written()
        for key, written in self._listed():
            is_stale = written is not None and own is not None and own - written >= STALE_AFTER
            if not is_stale and not self.is_ours(_run(key)):
                since = "" if written is None else f", at {format_moment(written)}"
                return f"{self._holder(key)}{since}"
            if key.startswith(self.folder):
                self.store.delete([key])
        return None

    def _listed(self) -> Iterator[tuple[str, datetime | None]]:
        for folder in (self.folder, *self.around):
            with suppress(MissingError, DeniedError):  # there are none, or they are not ours to see
                yield from (each for each in _list(self.store, folder) if _run(each[0]) != self.run)

    def _holder(self, key: str) -> str:
        try:
            return self.store.read(key).decode(errors="replace")
        except LakesweepError:
            return _run(key)


def _run(key: str) -> str:
    """The run that a lock is named after."""
    return key.rpartition("/")[2]


def _list(store: ObjectStore, folder: str) -> Iterator[tuple[str, datetime | None]]:
    cursor: object | None = None
    while True:
        page = store.list(folder, cursor=cursor)
        columns = (page.entries[name].to_pylist() for name in ("key", "modified"))
        yield from zip(*columns, strict=True)
        if page.next is None:
            return
        cursor = page.next


@contextmanager
def hold_lock(lock: LocationLock, lease: HeldLease) -> Iterator[LocationLock]:
    """Hold a lock while the block runs, and renew it with the lease."""
    lock.take()
    lock.renewed = lease.clock.monotonic()
    try:
        with lease.telling(lock.renew):
            yield lock
    finally:
        with suppress(LakesweepError):  # or else it becomes stale
            lock.release()


@contextmanager
def lock_locations(
    stores: StoreOpener, runs: RunLog, locations: Iterable[str], session: Session
) -> Iterator[None]:
    """Hold all locations while the block runs. LeaseHeldError if another run holds one."""
    record = session.record
    with ExitStack() as stack:
        for place in _distinct(locations):
            store = stores.open(place)
            if _exists(store, place):
                around = tuple(f"{folder}{LAKE_HOME}{LOCKS}" for folder in _above(place.folder))
                folder = parse(home_folder(record.lake, place.path)).key + LOCKS
                lock = LocationLock(store, folder, record.run, around, runs.has)
                stack.enter_context(hold_lock(lock, session.lease))
        yield


def _distinct(locations: Iterable[str]) -> list[Address]:
    places = {parse(location).identity.rstrip("/"): parse(location) for location in locations}
    return [places[name] for name in sorted(places)]


def _exists(store: ObjectStore, place: Address) -> bool:
    """Whether there is anything to lock: a lock must not create a folder that is not mounted."""
    try:
        store.list(place.folder, one_level=True)
    except MissingError:
        return False
    return True


def _above(folder: str) -> Iterator[str]:
    """The folders around a folder, up to the whole store."""
    parts = folder.rstrip("/").split("/")
    for depth in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:depth]) + "/"
    if folder:
        yield ""
