"""A lock beside the objects of a repository: one run deletes from it at a time.

The lease of a run lives in the store, and two machines may have two stores. So whoever deletes also
leaves an object in the namespace, and writes it again as often as the lease is renewed. One looks
after one has written: of two that begin at once, at least one sees the other, whatever the store
can do. Ages are told by the store's own clock, so that those of the machines do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.errors import LakesweepError, LeaseHeldError, MissingError
from lakesweep.lifecycle.history import HOME
from lakesweep.storage.address import parse
from lakesweep.sweep.leases import MARGIN, TERM, HeldLease
from lakesweep.sweep.sessions import holder

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import Namespace
    from lakesweep.storage.store import ObjectStore, StoreOpener

#: Where locks are, below a namespace, wherever the tables of the runs may be.
LOCKS = f"{HOME}locks/"
#: Who did not write for so long is dead: nothing deletes that long after its lease was renewed.
DEAD_AFTER = TERM + MARGIN


@dataclass(frozen=True)
class Lock:
    """The lock of one run. All that lie in the folder are of the same repository."""

    store: ObjectStore
    folder: str
    run: str

    @property
    def _key(self) -> str:
        return f"{self.folder}{self.run}"

    def take(self) -> None:
        """Hold the repository. LeaseHeldError where another run does."""
        self._write()
        if other := self._living_other():
            self.release()
            raise LeaseHeldError(
                f"objects of this repository are being deleted by {other}",
                hint="wait for it; if it is dead, its lock ends"
                f" {DEAD_AFTER.total_seconds():.0f} seconds after it was written last",
            )

    def renew(self, lease: HeldLease) -> None:
        """Hold it for longer. LeaseHeldError, and the lease is lost, if somebody took it over."""
        try:
            self.store.head(self._key)
        except MissingError:
            self._lose(lease)
        self._write()
        if self._living_other():
            self.release()
            self._lose(lease)

    def written(self) -> datetime | None:
        """When the store wrote the lock, by its own clock."""
        return self.store.head(self._key).modified

    def release(self) -> None:
        """Let others begin at once."""
        self.store.delete([self._key])

    def _lose(self, lease: HeldLease) -> None:
        lease.is_lost = True
        raise LeaseHeldError(f"{self.run}: another run has taken the lock of the repository")

    def _write(self) -> None:
        self.store.write(self._key, f"{self.run} ({holder()})".encode())

    def _living_other(self) -> str | None:
        """Who else holds the repository; what dead runs left is removed."""
        found = dict(self._listed())
        own = found.pop(self._key, None)
        for key, written in found.items():
            if own is None or written is None or own - written < DEAD_AFTER:
                return self._who(key)
            self.store.delete([key])
        return None

    def _listed(self) -> Iterator[tuple[str, datetime | None]]:
        cursor: object | None = None
        while True:
            page = self.store.list(self.folder, cursor=cursor)
            yield from zip(
                page.entries["key"].to_pylist(), page.entries["modified"].to_pylist(), strict=True
            )
            if page.next is None:
                return
            cursor = page.next

    def _who(self, key: str) -> str:
        try:
            return self.store.read(key).decode(errors="replace")
        except LakesweepError:
            return key.removeprefix(self.folder)


@contextmanager
def locked(stores: StoreOpener, namespace: Namespace, run: str, lease: HeldLease) -> Iterator[Lock]:
    """Hold a repository while the block runs; LeaseHeldError where another run does."""
    place = parse(namespace.address(LOCKS))
    lock = Lock(stores.open(place), place.key, run)
    lock.take()
    try:
        with lease.telling(lock.renew):
            yield lock
    finally:
        with suppress(LakesweepError):  # or else it ends by itself
            lock.release()
