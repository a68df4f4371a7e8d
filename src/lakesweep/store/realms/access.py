"""Access to a realm: reads and writes are refused unless its state allows them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import inf

from lakesweep.clock import Clock
from lakesweep.errors import RefusedError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.cache.cache import StoreCache
from lakesweep.store.realms.registry import RealmDefinition, RealmRegistry, RealmStatus

#: How long a process trusts its view of a realm's state. Before deleting the rows of a realm, wait
#: at least this long after its state has changed.
VIEW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _View:
    definition: RealmDefinition
    until: float


class RealmAccess:
    """Caches the state of recently used realms."""

    def __init__(self, realms: RealmRegistry, clock: Clock, cache: StoreCache) -> None:
        self._realms = realms
        self._clock = clock
        self._cache = cache
        self._lock = threading.Lock()
        self._views: dict[str, _View] = {}

    def check(self, name: str, allowed: Collection[RealmStatus]) -> None:
        """RefusedError unless the realm is in one of these states, or was moments ago."""
        if self._view(name).status not in allowed:
            self.verify(name, allowed)  # it may have been opened just now

    def verify(self, name: str, allowed: Collection[RealmStatus]) -> None:
        """RefusedError unless the realm is in one of these states now."""
        status = self._view(name, fresh=True).status
        if status not in allowed:
            raise RefusedError("realm-state", f"realm {name} is {status}", hint=_HINTS.get(status))

    def forget(self, name: str) -> None:
        """Read the state again at the next use of the realm."""
        with self._lock:
            view = self._views.get(name)
            if view is not None:
                self._views[name] = replace(view, until=-inf)

    def _view(self, name: str, *, fresh: bool = False) -> RealmDefinition:
        view = self._views.get(name)
        now = self._clock.monotonic()
        if view is None or fresh or now >= view.until:
            found = self._realms.get(name)
            if view is not None and view.definition.created_at != found.created_at:
                # A new realm has this name, and may have other objects under the same ids.
                self._cache.forget_realm(name)
            # Counted from before the read: the state may change while the response is on its way.
            view = _View(found, now + VIEW_SECONDS)
            with self._lock:
                self._views[name] = view
        return view.definition


class RealmAccessBackend(BackendWrapper):
    """A backend that allows access to a realm only while its state permits it."""

    def __init__(
        self, backend: Backend, access: RealmAccess, allowed: Collection[RealmStatus]
    ) -> None:
        super().__init__(backend)
        self._access = access
        self._allowed = frozenset(allowed)

    def _enter(self, realm: str) -> None:
        self._access.check(realm, self._allowed)


_HINTS = {
    RealmStatus.INACTIVE: "lakesweep realm activate makes it available again",
    RealmStatus.CREATED: "import into it, or purge and delete it",
    RealmStatus.INITIALIZING: "wait until it is complete, or run lakesweep realm create again",
    RealmStatus.LOADING: "wait until the import is complete, or repeat it",
    RealmStatus.PURGING: "its data is being deleted; use another realm",
    RealmStatus.PURGED: "its data is gone; lakesweep realm delete frees the name",
}
