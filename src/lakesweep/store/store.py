"""The store: one database and the realms in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Self

import msgspec

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import ContendedError, LakesweepError, RealmExistsError, RefusedError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.urls import open_backend
from lakesweep.store.backends.wrapper import OwnedBackend, ProcessOwner
from lakesweep.store.cache.cache import REFERENCE_SECONDS, StoreCache
from lakesweep.store.cache.caching_backend import CachingBackend, InvalidatingBackend
from lakesweep.store.cache.peers import Peers
from lakesweep.store.commits.fair_lock import FairLocks
from lakesweep.store.ids import NodeLease, SnowflakeIds
from lakesweep.store.ids.node_leases import StoredLeaseRows
from lakesweep.store.index.object_nodes import IndexNode
from lakesweep.store.objects.object_types import ObjectTypes
from lakesweep.store.realms.access import RealmAccess, RealmAccessBackend
from lakesweep.store.realms.realm import CommitCounts, Realm, RealmContext
from lakesweep.store.realms.registry import (
    RealmDefinition,
    RealmRegistry,
    RealmsCommit,
    RealmStatus,
    check_name,
)
from lakesweep.store.reserved_names import SYSTEM_REALM, standing_names

#: The default size of the cache.
CACHE_BYTES = 64 * 2**20

#: The types of the store itself.
OWN_TYPES: Mapping[str, type[msgspec.Struct]] = {"index-node": IndexNode, "realms": RealmsCommit}
_NO_TYPES: Mapping[str, type[msgspec.Struct]] = {}
_ACTIVE = frozenset({RealmStatus.ACTIVE})
_STARTED = frozenset({RealmStatus.CREATED, RealmStatus.INITIALIZING})


def _add_nothing(realm: Realm) -> None:
    """The realm keeps what the store itself adds."""
    del realm


class Store:
    """Opens realms. Threads may share it; a forked process must open its own."""

    def __init__(
        self,
        backend: Backend,
        *,
        types: Mapping[str, type[msgspec.Struct]] = _NO_TYPES,
        clock: Clock | None = None,
        cache_bytes: int | None = None,
        reference_seconds: float = REFERENCE_SECONDS,
        peers: Peers | None = None,
    ) -> None:
        """Over a backend; see `open` for the other parameters."""
        clock = clock or SystemClock()
        if cache_bytes is None:
            cache_bytes = CACHE_BYTES if backend.capabilities.durable else 0
        self.cache = StoreCache(
            cache_bytes, clock, reference_seconds=reference_seconds, peers=peers
        )
        invalidating = InvalidatingBackend(backend, self.cache) if cache_bytes else backend
        caching = CachingBackend(backend, self.cache) if cache_bytes else backend
        self._owner = ProcessOwner()
        #: Rows and references as stored. Writes and deletes through it invalidate the cache.
        self.backend: Backend = OwnedBackend(invalidating, self._owner)
        self._cached: Backend = OwnedBackend(caching, self._owner)
        chance = Random()  # noqa: S311 (jitter needs no secrecy)
        self._ids = SnowflakeIds(clock, NodeLease(StoredLeaseRows(backend, clock), chance))
        known = ObjectTypes({**OWN_TYPES, **types})
        self._context = RealmContext(known, clock, self._ids, FairLocks(), chance)
        self.system = Realm(SYSTEM_REALM, self.backend, self._context, self._cached)
        self.realms = RealmRegistry(self.system, clock)
        self._access = RealmAccess(self.realms, clock, self.cache)

    @property
    def commit_counts(self) -> CommitCounts:
        """The commits of this process so far."""
        return self._context.counts

    @property
    def type_names(self) -> frozenset[str]:
        """The object types that this store knows, by their names in rows."""
        return self._context.types.names

    @classmethod
    def open(
        cls,
        url: str,
        *,
        types: Mapping[str, type[msgspec.Struct]] = _NO_TYPES,
        clock: Clock | None = None,
        cache_bytes: int | None = None,
        reference_seconds: float = REFERENCE_SECONDS,
        peers: Peers | None = None,
    ) -> Store:
        """The store in a database whose tables exist; `types` are those of your own objects.

        `cache_bytes` limits the cache: 0 disables it; the default is 64 MiB, unless the store is in
        the memory of this process anyway. A reference is cached for `reference_seconds`. `peers`
        are notified of changes. SchemaError if the tables are missing, or newer than this program.
        """
        backend = open_backend(url)
        try:
            backend.check_schema()
        except BaseException:
            backend.close()
            raise
        return cls(
            backend,
            types=types,
            clock=clock,
            cache_bytes=cache_bytes,
            reference_seconds=reference_seconds,
            peers=peers,
        )

    @staticmethod
    def create_tables(url: str) -> None:
        """Create what a store needs and the database lacks; existing tables are not changed."""
        backend = open_backend(url)
        try:
            backend.init_schema()
        finally:
            backend.close()

    def realm(self, name: str) -> Realm:
        """An active realm; otherwise RealmMissingError or RefusedError."""
        return self.realm_in(name, _ACTIVE)

    def realm_in(self, name: str, allowed: Collection[RealmStatus]) -> Realm:
        """A realm in one of these states. Once it leaves them, every use is refused."""
        self._owner.check()
        check_name(name)
        self._access.check(name, allowed)
        return Realm(
            name,
            RealmAccessBackend(self.backend, self._access, allowed),
            self._context,
            RealmAccessBackend(self._cached, self._access, allowed),
            partial(self._access.verify, name, allowed),
        )

    def create_realm(
        self,
        name: str,
        properties: Mapping[str, str] | None = None,
        fill: Callable[[Realm], object] = _add_nothing,
    ) -> Realm:
        """A new active realm, with all references that a realm has, and with what `fill` adds.

        Completes a creation that was interrupted, so `fill` must be repeatable. RealmExistsError if
        there is any other realm of that name.
        """
        self.bootstrap(self._begin(name, properties), fill)
        return self.realm(name)

    def bootstrap(
        self, realm: RealmDefinition, fill: Callable[[Realm], object] = _add_nothing
    ) -> RealmDefinition:
        """Activate a created realm, or complete an interrupted activation.

        Several processes may do this at once: each continues where another one got to.
        """
        while realm.status is not RealmStatus.ACTIVE:
            try:
                realm = self._advance(realm, fill)
            except (ContendedError, RefusedError):
                # Lost the race. Continue only if the same realm advanced, not if it was deleted,
                # replaced
                # or did not change at all.
                now = self.realms.get(realm.name)
                if now == realm or now.created_at != realm.created_at or not _may_advance(now):
                    raise
                realm = now
            self._access.forget(realm.name)
        return realm

    def _advance(self, realm: RealmDefinition, fill: Callable[[Realm], object]) -> RealmDefinition:
        if realm.status is RealmStatus.CREATED:
            return self.realms.move(realm, RealmStatus.INITIALIZING)
        inside = self.realm_in(realm.name, {RealmStatus.INITIALIZING})
        # The state last: an active realm has all of it, also after a crash between two steps.
        inside.references.ensure(standing_names(realm.name))
        fill(inside)
        return self.realms.move(realm, RealmStatus.ACTIVE)

    def _begin(self, name: str, properties: Mapping[str, str] | None) -> RealmDefinition:
        try:
            return self.realms.create(name, properties)
        except RealmExistsError:
            started = self.realms.get(name)
            if started.status not in _STARTED:
                raise
            return self._restart(started, properties) if properties else started

    def _restart(self, started: RealmDefinition, properties: Mapping[str, str]) -> RealmDefinition:
        try:
            return self.realms.set_properties(started, properties)
        except ContendedError:
            return self._begin(started.name, properties)  # advanced or completed in the meantime

    def close(self) -> None:
        """Release this process's node id and close the database; in a fork, do nothing."""
        if not self._owner.is_me:
            return
        with suppress(LakesweepError):
            self._ids.close()  # a node id that cannot be released expires within the hour
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _may_advance(realm: RealmDefinition) -> bool:
    return realm.status in _STARTED | _ACTIVE
