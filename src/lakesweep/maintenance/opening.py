"""Opening the realms that a run works on, each only in a state in which that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError
from lakesweep.maintenance.newcomers import Seen
from lakesweep.maintenance.spec import PROCESSED
from lakesweep.store import Realm, Store
from lakesweep.store.purging import Look
from lakesweep.store.realms import RealmDefinition, RealmStatus


@dataclass(frozen=True, slots=True)
class OpenRealm:
    """A realm that is worked on. `look` raises as soon as that must end."""

    realm: Realm
    is_active: bool
    look: Callable[[], None]


@dataclass(frozen=True, slots=True)
class KnownRealm:
    """A realm of which all was found that stays, and where its references pointed before."""

    opened: OpenRealm
    seen: Seen


def open_realm(store: Store, name: str, clock: Clock, look: Callable[[], None]) -> OpenRealm:
    """A realm that is active or inactive. RefusedError or RealmMissingError if there is none."""
    definition = store.realms.get(name)
    realm = store.realm_in(name, PROCESSED)
    watch = Look(clock, partial(_verify, store, definition))

    def check() -> None:
        look()
        watch.refresh()

    return OpenRealm(realm, definition.status is RealmStatus.ACTIVE, check)


def open_system(store: Store, look: Callable[[], None]) -> OpenRealm:
    """The realm of the system itself, which is always there."""
    return OpenRealm(store.system, True, look)


def _verify(store: Store, seen: RealmDefinition) -> None:
    """RefusedError if the realm is closed by now, or is another one of the same name."""
    now = store.realms.get(seen.name)
    if now.created_at != seen.created_at or now.status not in PROCESSED:
        raise RefusedError("realm-state", f"realm {seen.name} is {now.status} by now")
