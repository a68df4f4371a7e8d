"""The cache of rows and references in one process.

Objects never change, so their rows stay until space is needed. Rows that are written conditionally
do change and are never cached. References are cached briefly.

A stale value never replaces a newer one, however slow its reader. Each call to the database is
registered with the entries that it concerns. If such an entry is stored or invalidated during the
call, it is marked as touched. When the call returns, an untouched entry takes the result; a
touched one only if the result is certainly newer. If that cannot be told, the entry is
invalidated, and the next reader asks the database.
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

#: How long a reference is remembered, unless it is asked for otherwise.
REFERENCE_SECONDS = 1.0

#: Where a row lies, or a reference.
RowPlace: TypeAlias = tuple[str, int, int]
NamePlace: TypeAlias = tuple[str, str]
Place: TypeAlias = RowPlace | NamePlace

# What a row and its place cost besides the bytes of the value; the same for a reference, and for
# each pointer that it remembers.
_ROW_BYTES = 340
_SIGHT_BYTES = 400
_POINTER_BYTES = 44


class CachedReference(NamedTuple):
    """A reference as the database had it, or that there was none; to be believed for a while."""

    reference: Reference | None
    until: float


Content: TypeAlias = ObjectRow | CachedReference
_NOTHING: Mapping[Place, Content] = {}


class InFlightCall:
    """A call to the database: when it began, the places nobody touched since, what it brings.

    It ends with its block. Whatever a visit that `changes` does not bring is forgotten then.
    """

    __slots__ = ("_cache", "began", "brought", "changes", "places", "untouched")

    def __init__(self, cache: StoreCache, places: Collection[Place], *, changes: bool) -> None:
        self._cache = cache
        self.places = places
        self.changes = changes
        self.untouched = set(places)
        self.brought: Mapping[Place, Content] = _NOTHING
        self.began = 0.0

    def __enter__(self) -> Self:
        self._cache.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.end(self)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What came of it so far. `unsent` messages to other processes were lost on the way out."""

    hits: int
    misses: int
    entries: int
    bytes: int
    max_bytes: int
    unsent: int


class StoreCache:
    """Rows and references of all realms, of `max_bytes` at most. Threads share it."""

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
        self._kept: EvictingMap[Place, Content] = EvictingMap(max_bytes)
        self._visits: set[InFlightCall] = set()
        self._hits = self._misses = self._unsent = 0

    def rows(self, realm: str, keys: Iterable[RowKey]) -> dict[RowKey, ObjectRow]:
        """Those of these rows that are remembered."""
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
        """Those of these references that were seen moments ago, also as missing."""
        found: dict[str, Reference | None] = {}
        now = self._clock.monotonic()
        with self._lock:
            for name in names:
                content = self._kept.get((realm, name))
                if isinstance(content, CachedReference) and now < content.until:
                    found[name] = content.reference
            self._count(len(names), len(found))
        return found

    def reading(self, places: Collection[Place]) -> InFlightCall:
        """A visit that leaves these places as they are."""
        return InFlightCall(self, places, changes=False)

    def changing(self, places: Collection[Place]) -> InFlightCall:
        """A visit that writes or deletes what lies there."""
        return InFlightCall(self, places, changes=True)

    def begin(self, visit: InFlightCall) -> None:
        """Note that a visit is under way."""
        visit.began = self._clock.monotonic()
        with self._lock:
            self._visits.add(visit)

    def end(self, visit: InFlightCall) -> None:
        """Settle what a visit brings."""
        with self._lock:
            self._visits.discard(visit)
            for place, content in visit.brought.items():
                self._settle(place, content, untouched=place in visit.untouched)
            if visit.changes:
                for place in visit.places:
                    if place not in visit.brought:
                        self._forget(place)

    def sights(
        self,
        visit: InFlightCall,
        realm: str,
        names: Collection[str],
        found: Mapping[str, Reference],
    ) -> Mapping[Place, Content]:
        """What a visit brings that asked for these names, and found some of them."""
        until = visit.began + self._reference_seconds
        if until <= visit.began:
            return {}
        return {(realm, name): CachedReference(found.get(name), until) for name in names}

    def forget(self, realm: str, keys: Iterable[RowKey | tuple[int, int]]) -> None:
        """Let rows go, because they are deleted or in doubt."""
        with self._lock:
            for number, part in keys:
                self._forget((realm, number, part))

    def forget_realm(self, realm: str) -> None:
        """Let everything of a realm go."""
        with self._lock:
            visited = (visit.untouched for visit in self._visits)
            for place in [*self._kept, *(place for some in visited for place in some)]:
                if place[0] == realm:
                    self._forget(place)

    def accept(self, message: Message) -> None:
        """Heed what another process says."""
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
        """Tell other processes what happened, if there are any."""
        if self._peers is None or not messages:
            return
        try:
            self._peers.publish(messages)
        except Exception:
            # What was changed stays changed; the others see it a little later.
            with self._lock:
                self._unsent += len(messages)

    def stats(self) -> CacheStats:
        """How it is doing."""
        with self._lock:
            return CacheStats(
                self._hits,
                self._misses,
                len(self._kept),
                self._kept.bytes,
                self._max_bytes,
                self._unsent,
            )

    def _settle(self, place: Place, content: Content, *, untouched: bool) -> None:
        kept = self._kept.peek(place)
        if untouched or (kept is not None and _follows(content, kept)):
            if kept is None or not self._is_behind(content, kept):
                self._put(place, content)
        elif kept is None or not _follows(kept, content):
            self._forget(place)

    def _is_behind(self, content: Content, kept: Content) -> bool:
        """Whether the database itself answered with less than is known. It might have been late."""
        return (
            isinstance(kept, CachedReference)
            and self._clock.monotonic() < kept.until
            and _follows(kept, content)
            and not _follows(content, kept)
        )

    def _put(self, place: Place, content: Content) -> None:
        self._kept.put(place, content, size_of(content))
        self._touch(place)

    def _forget(self, place: Place) -> None:
        self._kept.drop(place)
        self._touch(place)

    def _touch(self, place: Place) -> None:
        for visit in self._visits:
            visit.untouched.discard(place)

    def _accept_move(self, message: ReferenceMoved) -> None:
        place = (message.realm, message.name)
        with self._lock:
            if not _knows(self._kept.peek(place), message):
                self._forget(place)

    def _count(self, asked: int, found: int) -> None:
        self._hits += found
        self._misses += asked - found


def _follows(one: Content, other: Content) -> bool:
    """Whether one is certainly at least as new as the other."""
    if isinstance(one, CachedReference) and isinstance(other, CachedReference):
        new, old = one.reference, other.reference
        if new is None or old is None:
            return False
        # Of two that were created apart, clocks cannot tell which came first.
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
    """What it takes to remember this, its place included."""
    if isinstance(content, ObjectRow):
        return _ROW_BYTES + len(content.value)
    reference = content.reference
    if reference is None:
        return _SIGHT_BYTES
    return _SIGHT_BYTES + sys.getsizeof(reference.name) + _POINTER_BYTES * len(reference.recent)
