"""A lock beside the objects of a repository: only one run deletes from it at a time.

The lease of a run lives in the store, and two machines may have two stores. So a run that deletes
also writes a lock object into the namespace, and rewrites it whenever its lease is renewed. It
looks for other locks after writing its own: of two runs that start together, at least one sees the
other, whatever the object store guarantees. The object store's clock tells how old a lock is, so
the clocks of the machines do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.errors import LakesweepError, LeaseHeldError, MissingError
from lakesweep.lifecycle.run_history import HOME
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, HeldLease
from lakesweep.runs.sessions import holder_name
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.storage.object_store import ObjectStore, StoreOpener

#: Where locks are, below a namespace, wherever the tables of the runs may be.
LOCKS = f"{HOME}locks/"
#: Who did not write for so long is dead: nothing deletes that long after its lease was renewed.
STALE_AFTER = LEASE_TERM + CLOCK_MARGIN


@dataclass(frozen=True)
class RepositoryLock:
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
                f" {STALE_AFTER.total_seconds():.0f} seconds after it was written last",
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
        self.store.write(self._key, f"{self.run} ({holder_name()})".encode())

    def _living_other(self) -> str | None:
        """Who else holds the repository; what dead runs left is removed."""
        found = dict(self._listed())
        own = found.pop(self._key, None)
        for key, written in found.items():
            if own is None or written is None or own - written < STALE_AFTER:
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
def lock_repository(
    stores: StoreOpener, namespace: StorageNamespace, run: str, lease: HeldLease
) -> Iterator[RepositoryLock]:
    """Hold a repository while the block runs; LeaseHeldError where another run does."""
    place = parse(namespace.address(LOCKS))
    lock = RepositoryLock(stores.open(place), place.key, run)
    lock.take()
    try:
        with lease.telling(lock.renew):
            yield lock
    finally:
        with suppress(LakesweepError):  # or else it ends by itself
            lock.release()
