"""The lock of a repository, in its namespace, wherever the tables of the runs may be."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from lakesweep.lifecycle.run_history import HOME
from lakesweep.runs.location_lock import LocationLock, hold_lock
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.runs.leases import HeldLease
    from lakesweep.storage.object_store import StoreOpener

#: Where locks are, below a namespace.
LOCKS = f"{HOME}locks/"


def lock_repository(
    stores: StoreOpener, namespace: StorageNamespace, run: str, lease: HeldLease
) -> AbstractContextManager[LocationLock]:
    """Hold a repository while the block runs; LeaseHeldError if another run does."""
    place = parse(namespace.address(LOCKS))
    return hold_lock(LocationLock(stores.open(place), place.key, run), lease)
