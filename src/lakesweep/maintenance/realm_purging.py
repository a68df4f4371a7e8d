"""Purging realms with all that is in them."""

from __future__ import annotations

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError
from lakesweep.progress import Progress
from lakesweep.store import Store
from lakesweep.store.gate import VIEW_SECONDS
from lakesweep.store.purging import Holdings, Purging
from lakesweep.store.realms import RealmDefinition, RealmStatus


def purging(store: Store, clock: Clock, progress: Progress) -> Purging:
    """What purges realms whose state everybody has noticed by now."""
    return Purging(store.realms, store.backend, clock, progress, settle_seconds=0)


def settle(clock: Clock) -> None:
    """Wait until nobody goes by what a realm was like before it was to be purged."""
    clock.sleep(VIEW_SECONDS)


def purge_realm(purge: Purging, name: str) -> Holdings:
    """Delete all of a realm that is to be purged, right now; what a scan found of it.

    RefusedError if it is in any other state: then not a row is touched.
    """
    _, found = purge.purge_counted(purgeable(purge.realms.get(name)))
    return found


def purgeable(realm: RealmDefinition) -> RealmDefinition:
    """The realm. RefusedError unless it is to be purged."""
    if realm.status is not RealmStatus.PURGING:
        raise RefusedError(
            "realm-state",
            f"realm {realm.name} is {realm.status}, not purging; nothing of it was deleted",
            hint=f"lakesweep realm show {realm.name}",
        )
    return realm
