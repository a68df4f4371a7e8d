"""A lock beside the data: only one run changes a location at a time, whatever its store.

The lease of a run lives in the store, and two machines may have two stores. So a run that
deletes also writes a lock object into each location, and rewrites it whenever its lease is
renewed. It looks for other locks after writing its own: of two runs that start together, at least
one sees the other, whatever the object store guarantees. The object store's clock tells how old
a lock is, so the clocks of the machines do not matter.

Locations of two stores may be nested. A run therefore also looks at the folders above its
location, and at those below it that were listed. It puts a copy of its lock into the homes of
lakes above, as far as it may write there, so that a run that starts further out sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from lakesweep.errors import DeniedError, LakesweepError, LeaseHeldError, MissingError
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, HeldLease
from lakesweep.runs.lock_holders import (
    MOST_BYTES,
    LockRecord,
    is_gone,
    lock_nonce,
    new_record,
    parse_record,
)
from lakesweep.runs.records import home_folder, homes_above
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session
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

#: Whether a run of our own store holds its lease, which ends at this moment or later; None if our
#: store does not know the run.
HoldsLease = Callable[[str, int], bool | None]


def _unknown(run: str, until: int) -> None:
    del run, until


@dataclass
class LocationLock:
    """The lock of one run in a folder of locks.

    `above` are the homes of lakes further out that may exist, and `around` all other folders that
    may hold locks. Runs of our own store may hold those: they work on other lakes, of which our
    configuration knows.
    """

    store: ObjectStore
    folder: str
    run: str
    above: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    holds_lease: HoldsLease = _unknown
    nonce: str = ""
    #: When it was written last, by the monotonic clock.
    renewed: float = field(default=0.0, init=False)
    _lease_until: int = field(default=0, init=False)
    _copies: dict[str, None] = field(default_factory=dict, init=False)

    @property
    def _key(self) -> str:
        return f"{self.folder}{self.run}"

    @property
    def _path(self) -> str:
        return f"{self.store.base}{self.folder}"

    def take(self, lease_until: int = 0) -> None:
        """Hold the location. LeaseHeldError if another run does, DeniedError if it is read-only."""
        self._lease_until = lease_until
        try:
            self._write()
        except DeniedError as error:
            raise DeniedError(
                error.path,
                f"the lock of the location cannot be written: {error.reason}",
                hint=f"grant the right to write and delete below {self._path}; a run that deletes"
                " needs it, so that no other machine deletes there at the same time",
            ) from error
        # Write first, then look: of two runs that begin at once at least one sees the other.
        # Looking first could let both begin.
        if other := self._living_other():
            self.release()
            raise LeaseHeldError(
                f"{self._path} is locked by {other}",
                hint="wait for that run; if it is dead, its lock is stale"
                f" {STALE_AFTER.total_seconds():.0f} seconds after that time",
            )

    def renew(self, lease: HeldLease) -> None:
        """Hold it for longer. LeaseHeldError, and the lease is lost, if another run has it."""
        self._lease_until = lease.stored.value.expires_at
        try:
            # A lock that is gone was taken for stale by a run that is deleting already: do not
            # bring it back.
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
        for key in (self._key, *self._copies):
            self.store.delete([key])

    def _write(self) -> None:
        data = msgspec.json.encode(new_record(self.run, self.nonce, self._lease_until))
        self.store.write(self._key, data)
        # Runs of a lake further out look into their own home; without a copy there they miss us.
        for home in self.above:
            # What lies further out may not be ours to read or write. Then only a run there that
            # looks below can see us, and we see it.
            with suppress(LakesweepError):
                if self._is_home(home):
                    key = f"{home}{LOCKS}{self.run}"
                    self._copies[key] = None
                    self.store.write(key, data)

    def _is_home(self, folder: str) -> bool:
        page = self.store.list(folder, one_level=True)
        return bool(page.entries.num_rows or page.folders)

    def _living_other(self) -> str | None:
        """Who else holds the location; what dead runs left is removed."""
        own = self.written()
        for key, written in self._listed():
            age = None if own is None or written is None else own - written
            if age is None or age < STALE_AFTER:
                record = self._read(key)
                if self.holds_lease(record.run, record.lease_until):
                    continue
                is_ours = self.holds_lease(record.run, 0) is not None
                if not (is_ours and is_gone(record)):
                    return f"{record}{self._since(key, own, written)}"
            if key.startswith(self.folder):
                self.store.delete([key])
        return None

    def _since(self, key: str, own: datetime | None, written: datetime | None) -> str:
        """Since when a lock counts. One of the future, which no store writes, counts from now."""
        if written is None:
            return ""
        if own is None or written - own <= CLOCK_MARGIN:
            return f", at {format_moment(written)}"
        path = f"{self.store.base}{key}"
        try:
            # A run that holds it writes it again anyway. If there is none, it becomes stale.
            self.store.write(key, self._data(key))
        except LakesweepError:
            return f", at {format_moment(written)}, which is in the future; remove {path}"
        return f", at {format_moment(own)}: {path} had a time in the future"

    def _listed(self) -> Iterator[tuple[str, datetime | None]]:
        above = (f"{home}{LOCKS}" for home in self.above)
        for folder in dict.fromkeys((self.folder, *above, *self.around)):
            with suppress(MissingError, DeniedError):  # there are none, or they are not ours to see
                yield from (each for each in _list(self.store, folder) if _run(each[0]) != self.run)

    def _read(self, key: str) -> LockRecord:
        try:
            return parse_record(_run(key), self._data(key))
        except LakesweepError:
            return LockRecord(_run(key))

    def _data(self, key: str) -> bytes:
        """The beginning of a lock: all of it, unless something else was put there."""
        return self.store.read_range(key, 0, MOST_BYTES)


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
    with lock_nonce() as lock.nonce:
        try:
            # Whatever fails from here on, the lock may have been written, and must not stay.
            lock.take(lease.stored.value.expires_at)
            lock.renewed = lease.clock.monotonic()
            with lease.telling(lock.renew):
                yield lock
        finally:
            with suppress(LakesweepError):  # or else it becomes stale
                lock.release()


@contextmanager
def lock_locations(
    stores: StoreOpener,
    runs: RunLog,
    locations: Iterable[str],
    session: Session,
    below: Iterable[str] = (),
) -> Iterator[list[LocationLock]]:
    """Hold all locations while the block runs. LeaseHeldError if another run holds one.

    `below` are the homes of other lakes that were found in the locations. A location that does
    not exist has no lock.
    """
    record = session.record
    inner = [parse(home) for home in below]
    locks = []
    with ExitStack() as stack:
        for place in _distinct(locations):
            store = stores.open(place)
            if _exists(store, place):
                lock = LocationLock(
                    store,
                    parse(home_folder(record.lake, place.path)).key + LOCKS,
                    record.run,
                    tuple(home.key for home in homes_above(place)),
                    tuple(f"{home.key}{LOCKS}" for home in inner if _is_below(home, place)),
                    runs.holds_lease,
                )
                locks.append(stack.enter_context(hold_lock(lock, session.lease)))
        yield locks


def _is_below(home: Address, place: Address) -> bool:
    return home.identity.startswith(place.child(place.folder).identity)


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
