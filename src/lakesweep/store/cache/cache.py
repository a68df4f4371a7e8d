"""The cache of rows and references in one process.

Objects never change, so their rows stay until space is needed. Rows that are written conditionally
do change and are never cached. References are cached briefly.

A stale value never replaces a newer one, however slow its reader. Each call to the database is
registered with the entries that it concerns. If such an entry is stored or invalidated during the
call, it is marked as touched. When the call returns, an untouched entry takes the result; a touched
one only if the result is certainly newer. Otherwise the entry is invalidated, and the next reader
asks the database.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias, assert_never

from lakesweep.clock import Clock
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from lakesweep.store.cache.eviction import EvictingMap
from lakesweep.store.cache.peers import Message, Peers, RealmGone, ReferenceMoved, RowsGone

#: The default time for which a reference is cached.
REFERENCE_SECONDS = 1.0

#: The cache keys of a row and of a reference.
RowCacheKey: TypeAlias = tuple[str, int, int]
ReferenceCacheKey: TypeAlias = tuple[str, str]
CacheKey: TypeAlias = RowCacheKey | ReferenceCacheKey

# The cost of a row and its key besides the bytes of the value; the same for a reference, and for
# each pointer in it.
_ROW_BYTES = 340
_REFERENCE_BYTES = 400
_POINTER_BYTES = 44


class CachedReference(NamedTuple):
    """A reference as the database had it, or its absence; valid for a while."""

    reference: Reference | None
    until: float


Content: TypeAlias = ObjectRow | CachedReference
_NOTHING: Mapping[CacheKey, Content] = {}


class InFlightCall:
    """A call to the database: its start, the keys not touched since, and its results.

    It ends with its block. If the call `changes` something, keys without a result are invalidated
    then.
    """

    __slots__ = ("_cache", "began", "changes", "keys", "results", "untouched")

    def __init__(self, cache: StoreCache, keys: Collection[CacheKey], *, changes: bool) -> None:
        self._cache = cache
        self.keys = keys
        self.changes = changes
        self.untouched = set(keys)
        self.results: Mapping[CacheKey, Content] = _NOTHING
        self.began = 0.0

    def __enter__(self) -> Self:
        self._cache.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.end(self)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Statistics so far. `unsent` messages to other processes could not be sent."""

    hits: int
    misses: int
    entries: int
    bytes: int
    max_bytes: int
    unsent: int


class StoreCache:
    """Rows and references of all realms, of at most `max_bytes`. Shared by threads."""

    def __init__(
        self,
        max_bytes: int,
        clock: Clock,
        *,
        reference_seconds: float = REFERENCE_SECONDS,
        peers: Peers | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._reference_seconds = reference_seconds
        self._peers = peers
        self._lock = threading.Lock()
        self._kept: EvictingMap[CacheKey, Content] = EvictingMap(max_bytes)
        self._calls: set[InFlightCall] = set()
        self._hits = self._misses = self._unsent = 0

    def rows(self, realm: str, keys: Iterable[RowKey]) -> dict[RowKey, ObjectRow]:
        """Those of these rows that are cached."""
        found: dict[RowKey, ObjectRow] = {}
        asked = 0
        with self._lock:
            get = self._kept.get
            for key in keys:
                asked += 1
                content = get((realm, key[0], key[1]))
                if isinstance(content, ObjectRow):
                    found[key] = content
            self._count(asked, len(found))
        return found

    def references(self, realm: str, names: Collection[str]) -> dict[str, Reference | None]:
        """Those of these references that are cached, including known absences."""
        found: dict[str, Reference | None] = {}
        now = self._clock.monotonic()
        with self._lock:
            for name in names:
                content = self._kept.get((realm, name))
                if isinstance(content, CachedReference) and now < content.until:
                    found[name] = content.reference
            self._count(len(names), len(found))
        return found

    def reading(self, keys: Collection[CacheKey]) -> InFlightCall:
        """A call that leaves these entries unchanged."""
        return InFlightCall(self, keys, changes=False)

    def changing(self, keys: Collection[CacheKey]) -> InFlightCall:
        """A call that writes or deletes these entries."""
        return InFlightCall(self, keys, changes=True)

    def begin(self, call: InFlightCall) -> None:
        """Register a call that is starting."""
        call.began = self._clock.monotonic()
        with self._lock:
            self._calls.add(call)

    def end(self, call: InFlightCall) -> None:
        """Cache the results of a call."""
        with self._lock:
            self._calls.discard(call)
            for key, content in call.results.items():
                self._store_result(key, content, untouched=key in call.untouched)
            if call.changes:
                for key in call.keys:
                    if key not in call.results:
                        self._forget(key)

    def reference_entries(
        self,
        call: InFlightCall,
        realm: str,
        names: Collection[str],
        found: Mapping[str, Reference],
    ) -> Mapping[CacheKey, Content]:
        """The cache entries for a call that asked for these names and found some of them."""
        # Counted from the start of the call: the response may already be old when it arrives.
        until = call.began + self._reference_seconds
        if until <= call.began:
            return {}
        return {(realm, name): CachedReference(found.get(name), until) for name in names}

    def forget(self, realm: str, keys: Iterable[RowKey | tuple[int, int]]) -> None:
        """Invalidate rows that are deleted or in doubt."""
        with self._lock:
            for number, part in keys:
                self._forget((realm, number, part))

    def forget_realm(self, realm: str) -> None:
        """Invalidate everything of a realm."""
        with self._lock:
            untouched = (call.untouched for call in self._calls)
            for key in [*self._kept, *(key for some in untouched for key in some)]:
                if key[0] == realm:
                    self._forget(key)

    def accept(self, message: Message) -> None:
        """Apply a message of another process."""
        match message:
            case ReferenceMoved():
                self._accept_move(message)
            case RowsGone():
                self.forget(message.realm, message.keys)
            case RealmGone():
                self.forget_realm(message.realm)
            case _:
                assert_never(message)

    def announce(self, messages: Sequence[Message]) -> None:
        """Notify other processes of changes, if there are any."""
        if self._peers is None or not messages:
            return
        try:
            self._peers.publish(messages)
        except Exception:
            # The change itself stands; the others see it a little later.
            with self._lock:
                self._unsent += len(messages)

    def stats(self) -> CacheStats:
        """Current statistics."""
        with self._lock:
            return CacheStats(
                self._hits,
                self._misses,
                len(self._kept),
                self._kept.bytes,
                self._max_bytes,
                self._unsent,
            )

    def _store_result(self, key: CacheKey, content: Content, *, untouched: bool) -> None:
        kept = self._kept.peek(key)
        if untouched or (kept is not None and _follows(content, kept)):
            if kept is None or not self._is_behind(content, kept):
                self._put(key, content)
        elif kept is None or not _follows(kept, content):
            self._forget(key)

    def _is_behind(self, content: Content, kept: Content) -> bool:
        """Whether the database returned less than is known, which a lagging server may do."""
        return (
            isinstance(kept, CachedReference)
            and self._clock.monotonic() < kept.until
            and _follows(kept, content)
            and not _follows(content, kept)
        )

    def _put(self, key: CacheKey, content: Content) -> None:
        self._kept.put(key, content, size_of(content))
        self._touch(key)

    def _forget(self, key: CacheKey) -> None:
        self._kept.drop(key)
        self._touch(key)

    def _touch(self, key: CacheKey) -> None:
        for call in self._calls:
            call.untouched.discard(key)

    def _accept_move(self, message: ReferenceMoved) -> None:
        key = (message.realm, message.name)
        with self._lock:
            if not _knows(self._kept.peek(key), message):
                self._forget(key)

    def _count(self, asked: int, found: int) -> None:
        self._hits += found
        self._misses += asked - found


def _follows(one: Content, other: Content) -> bool:
    """Whether one is certainly at least as new as the other."""
    if isinstance(one, CachedReference) and isinstance(other, CachedReference):
        new, old = one.reference, other.reference
        if new is None or old is None:
            return False
        # For two that were created separately, clocks cannot tell which came first.
        return new.created_at == old.created_at and new.version >= old.version
    return one == other


def _knows(kept: Content | None, message: ReferenceMoved) -> bool:
    reference = kept.reference if isinstance(kept, CachedReference) else None
    return (
        reference is not None
        and reference.created_at == message.created_at
        and reference.version >= message.version
    )


def size_of(content: Content) -> int:
    """The cost of caching this, including its key."""
    if isinstance(content, ObjectRow):
        return _ROW_BYTES + len(content.value)
    reference = content.reference
    if reference is None:
        return _REFERENCE_BYTES
    return _REFERENCE_BYTES + sys.getsizeof(reference.name) + _POINTER_BYTES * len(reference.recent)
