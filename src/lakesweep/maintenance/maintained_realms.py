"""The realms of a run: which are scanned, which are purged, and how each is opened.

A realm is opened only in a state that allows the work, and that state is checked again during
the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError, UsageError
from lakesweep.maintenance.concurrent_commits import SeenPointers
from lakesweep.progress import Progress
from lakesweep.store import Realm, Store
from lakesweep.store.realms.access import VIEW_SECONDS
from lakesweep.store.realms.purge import RealmPurger, RealmSize, StateCheck
from lakesweep.store.realms.registry import RealmDefinition, RealmStatus
from lakesweep.store.reserved_names import RESERVED

#: The states of realms whose unused rows are deleted.
PROCESSED = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})


@dataclass(frozen=True, slots=True)
class MaintenanceRunSpec:
    """The realms to clean and those to purge; all others are left alone."""

    realms_to_process: frozenset[str] = frozenset()
    realms_to_purge: frozenset[str] = frozenset()
    include_system_realm: bool = True

    def check(self) -> None:
        """UsageError if it contradicts itself, or names a realm of the system."""
        for name in sorted(self.realms_to_process | self.realms_to_purge):
            if name.startswith(RESERVED):
                raise UsageError(
                    f"{name} is a realm of the system",
                    hint="it is included unless include_system_realm is False",
                )
        for name in sorted(self.realms_to_process & self.realms_to_purge):
            raise UsageError(f"realm {name} cannot be both kept and purged")


def spec_of(realms: Iterable[RealmDefinition]) -> MaintenanceRunSpec:
    """What to do with each realm, by its state."""
    states = {realm.name: realm.status for realm in realms}
    return MaintenanceRunSpec(
        frozenset(name for name, status in states.items() if status in PROCESSED),
        frozenset(name for name, status in states.items() if status is RealmStatus.PURGING),
    )


@dataclass(frozen=True, slots=True)
class OpenRealm:
    """A realm that is being maintained. `look` raises as soon as that must stop."""

    realm: Realm
    is_active: bool
    look: Callable[[], None]


@dataclass(frozen=True, slots=True)
class MarkedRealm:
    """A realm whose live objects are known, and where its references pointed before."""

    opened: OpenRealm
    seen: SeenPointers


def open_realm(store: Store, name: str, clock: Clock, look: Callable[[], None]) -> OpenRealm:
    """A realm that is active or inactive. RefusedError or RealmMissingError if there is none."""
    definition = store.realms.get(name)
    realm = store.realm_in(name, PROCESSED)
    watch = StateCheck(clock, partial(_verify, store, definition))

    def check() -> None:
        look()
        watch.refresh()

    return OpenRealm(realm, definition.status is RealmStatus.ACTIVE, check)


def open_system(store: Store, look: Callable[[], None]) -> OpenRealm:
    """The realm of the system itself, which is always there."""
    return OpenRealm(store.system, True, look)


def _verify(store: Store, seen: RealmDefinition) -> None:
    """RefusedError if the realm was closed, or replaced by another one of the same name."""
    now = store.realms.get(seen.name)
    if now.created_at != seen.created_at or now.status not in PROCESSED:
        raise RefusedError("realm-state", f"realm {seen.name} is now {now.status}")


def realm_purger(store: Store, clock: Clock, progress: Progress) -> RealmPurger:
    """Purges realms whose state all processes have noticed."""
    return RealmPurger(store.realms, store.backend, clock, progress, settle_seconds=0)


def await_purge_visible(clock: Clock) -> None:
    """Wait until no process relies on an earlier state of a realm."""
    clock.sleep(VIEW_SECONDS)


def purge_realm(purge: RealmPurger, name: str) -> RealmSize:
    """Delete all of a realm that is to be purged, right now; what a scan found of it.

    RefusedError if it is in any other state: then not a row is touched.
    """
    _, found = purge.purge_counted(require_purgeable(purge.realms.get(name)))
    return found


def require_maintainable(realm: RealmDefinition) -> RealmDefinition:
    """The realm. RefusedError unless it is active or inactive."""
    if realm.status not in PROCESSED:
        raise RefusedError(
            "realm-state",
            f"realm {realm.name} is {realm.status}; only active and inactive realms are maintained",
            hint=f"lakesweep realm show {realm.name}",
        )
    return realm


def require_purgeable(realm: RealmDefinition) -> RealmDefinition:
    """The realm. RefusedError unless it is to be purged."""
    if realm.status is not RealmStatus.PURGING:
        raise RefusedError(
            "realm-state",
            f"realm {realm.name} is {realm.status}, not purging; nothing of it was deleted",
            hint=f"lakesweep realm show {realm.name}",
        )
    return realm
