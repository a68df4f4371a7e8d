"""The store: one database and the realms in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
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
from lakesweep.store.realms.realm import Realm, RealmContext
from lakesweep.store.realms.registry import (
    RealmDefinition,
    RealmRegistry,
    RealmsCommit,
    RealmStatus,
    check_name,
)
from lakesweep.store.reserved_names import SYSTEM_REALM, standing_names

#: What is remembered of a database, unless it is asked for otherwise.
CACHE_BYTES = 64 * 2**20

_OWN_TYPES: Mapping[str, type[msgspec.Struct]] = {"index-node": IndexNode, "realms": RealmsCommit}
_NO_TYPES: Mapping[str, type[msgspec.Struct]] = {}
_ACTIVE = frozenset({RealmStatus.ACTIVE})
_BEGUN = frozenset({RealmStatus.CREATED, RealmStatus.INITIALIZING})


class Store:
    """Opens realms. Threads may share it; a forked process opens one of its own."""

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
        """Over a backend; see `open` for the rest."""
        clock = clock or SystemClock()
        if cache_bytes is None:
            cache_bytes = CACHE_BYTES if backend.capabilities.durable else 0
        self.cache = StoreCache(
            cache_bytes, clock, reference_seconds=reference_seconds, peers=peers
        )
        telling = InvalidatingBackend(backend, self.cache) if cache_bytes else backend
        caching = CachingBackend(backend, self.cache) if cache_bytes else backend
        self._owner = ProcessOwner()
        #: Rows and references as they are. What is written and deleted here, the cache hears of.
        self.backend: Backend = OwnedBackend(telling, self._owner)
        self._cached: Backend = OwnedBackend(caching, self._owner)
        chance = Random()  # noqa: S311 (who waits how long is no secret)
        self._ids = SnowflakeIds(clock, NodeLease(StoredLeaseRows(backend, clock), chance))
        known = ObjectTypes({**_OWN_TYPES, **types})
        self._tools = RealmContext(known, clock, self._ids, FairLocks(), chance)
        self.system = Realm(SYSTEM_REALM, self.backend, self._tools, self._cached)
        self.realms = RealmRegistry(self.system, clock)
        self._gate = RealmAccess(self.realms, clock, self.cache)

    @property
    def type_names(self) -> frozenset[str]:
        """The types of objects that this store knows, by the names that rows have."""
        return self._tools.types.names

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

        `cache_bytes` is what may be remembered of it: 0 for nothing, otherwise 64 MiB unless it
        lies in the memory of this process anyway. A reference is remembered for
        `reference_seconds`. `peers` are told what changes. SchemaError if the tables are missing,
        or newer than this program.
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
        """Create what a database lacks to hold a store; change nothing that is there."""
        backend = open_backend(url)
        try:
            backend.init_schema()
        finally:
            backend.close()

    def realm(self, name: str) -> Realm:
        """An active realm. RealmMissingError or RefusedError if there is none."""
        return self.realm_in(name, _ACTIVE)

    def realm_in(self, name: str, allowed: Collection[RealmStatus]) -> Realm:
        """A realm in one of these states. As soon as it leaves them, every use is refused."""
        self._owner.check()
        check_name(name)
        self._gate.check(name, allowed)
        backend = RealmAccessBackend(self.backend, self._gate, allowed)
        return Realm(
            name, backend, self._tools, RealmAccessBackend(self._cached, self._gate, allowed)
        )

    def create_realm(self, name: str, properties: Mapping[str, str] | None = None) -> Realm:
        """A new active realm, with all references that a realm has.

        One whose creation was begun and not finished is finished. RealmExistsError if there is any
        other of that name.
        """
        self.bootstrap(self._begin(name, properties))
        return self.realm(name)

    def bootstrap(self, realm: RealmDefinition) -> RealmDefinition:
        """Make a realm active that was created, also where that was begun and not finished.

        Several processes may do so at once: each goes on from where another one has come to.
        """
        while realm.status is not RealmStatus.ACTIVE:
            try:
                realm = self._bring_on(realm)
            except (ContendedError, RefusedError):
                now = self.realms.get(realm.name)
                if now == realm or now.created_at != realm.created_at or not _may_come_on(now):
                    raise
                realm = now
            self._gate.forget(realm.name)
        return realm

    def _bring_on(self, realm: RealmDefinition) -> RealmDefinition:
        if realm.status is RealmStatus.CREATED:
            return self.realms.move(realm, RealmStatus.INITIALIZING)
        inside = self.realm_in(realm.name, {RealmStatus.INITIALIZING})
        inside.references.ensure(standing_names(realm.name))
        return self.realms.move(realm, RealmStatus.ACTIVE)

    def _begin(self, name: str, properties: Mapping[str, str] | None) -> RealmDefinition:
        try:
            return self.realms.create(name, properties)
        except RealmExistsError:
            begun = self.realms.get(name)
            if begun.status not in _BEGUN:
                raise
            return self._begin_anew(begun, properties) if properties else begun

    def _begin_anew(self, begun: RealmDefinition, properties: Mapping[str, str]) -> RealmDefinition:
        try:
            return self.realms.set_properties(begun, properties)
        except ContendedError:
            return self._begin(begun.name, properties)  # it came on, or was finished meanwhile

    def close(self) -> None:
        """Give back the node of this process, and let go of the database; in a fork, of nothing."""
        if not self._owner.is_me:
            return
        with suppress(LakesweepError):
            self._ids.close()  # a node that cannot be given back is free again within the hour
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


def _may_come_on(realm: RealmDefinition) -> bool:
    return realm.status in _BEGUN | _ACTIVE
