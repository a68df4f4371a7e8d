"""Apply a batch of changes to the content of a catalog, with its locations and dropped entities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from lakesweep.catalog.commits import (
    DROPPED,
    KEYS,
    REQUESTS,
    AnsweredRequest,
    ContentCommit,
    DroppedEntity,
    MutationResult,
    MutationStatus,
    Remember,
    Undrop,
)
from lakesweep.catalog.containers.entity_batch import EntityBatch, path_key
from lakesweep.catalog.containers.entity_index import IndexedEntity
from lakesweep.catalog.containers.locations import (
    Locations,
    are_apart,
    check_address,
    location_keys,
    location_of,
)
from lakesweep.catalog.entities import (
    CONTENT_KINDS,
    STORED_KINDS,
    CatalogPolicy,
    Entity,
    EntityType,
    join,
    kind_of,
    split,
)
from lakesweep.errors import EntityExistsError, EntityMissingError, RefusedError, UsageError
from lakesweep.iceberg.policy_documents import check_policy
from lakesweep.store import Attempt, Change, IndexRoot, key, seal
from lakesweep.store.index.keys import decode

#: A commit forgets at most this many dropped entities whose retention has ended.
_FORGOTTEN_AT_ONCE = 100
#: How long a request that was carried out is remembered.
REMEMBERED_SECONDS = 3600
_SECOND = 1_000_000


class ContentBatch(EntityBatch):
    """Mutations of the content of one catalog."""

    def __init__(
        self,
        attempt: Attempt[ContentCommit],
        head: ContentCommit,
        now: int,
        new_id: Callable[[], int],
    ) -> None:
        super().__init__(attempt, head, now, new_id)
        self._head = head
        self._location_index = attempt.index(head.locations, KEYS)
        self._locations = Locations(self._location_index)
        self._dropped = attempt.index(head.dropped, DROPPED)
        self._requests = attempt.index(head.requests, REQUESTS)

    def indexes(self) -> dict[str, IndexRoot]:
        """All indexes, without dropped entities whose retention has ended.

        It must have ended by the clock of the last commit, too, so that one clock that is ahead
        cannot expire files early.
        """
        self._forget(min(self.now, self._head.committed_at), _FORGOTTEN_AT_ONCE)
        return {
            **super().indexes(),
            "locations": seal(self._location_index),
            "dropped": seal(self._dropped),
            "requests": seal(self._requests),
        }

    def remember(self, mutation: Remember) -> MutationResult:
        """Note a request. EntityExistsError if it was carried out before."""
        if self._requests.get(mutation.key) is not None:
            raise EntityExistsError("this request was carried out before")
        self._forget_requests(self.now - REMEMBERED_SECONDS * _SECOND)
        noted = AnsweredRequest(self.now, mutation.asked, mutation.answer)
        self._requests.put(mutation.key, noted)
        return MutationResult(MutationStatus.REMEMBERED)

    def _forget_requests(self, until: int) -> None:
        """Forget old requests. Their keys begin with a time, so that the oldest come first."""
        first = islice(self._requests.items(), _FORGOTTEN_AT_ONCE)
        for found in [each for each, request in first if request.at < until]:
            self._requests.remove(found)

    def forget_dropped(self, most: int) -> int:
        """Forget dropped entities whose retention has ended; returns how many."""
        return self._forget(self.now, most)

    def _forget(self, now: int, most: int) -> int:
        until = forget_before(self._head, now)
        old = [found for found, _ in islice(self._dropped.items(stop=key(max(until, 0))), most)]
        for found in old:
            self._dropped.remove(found)
        return len(old)

    def check(self, before: Entity | None, after: Entity | None) -> None:
        """Refuse what is not content, invalid policies and addresses, and overlapping locations."""
        if after is None:
            return
        kind = kind_of(after)
        if kind not in CONTENT_KINDS:
            raise UsageError(f"a catalog cannot contain a {kind.words}")
        if isinstance(after, CatalogPolicy):
            check_policy(after.type, after.content)
        metadata = getattr(after, "metadata_location", None)
        if metadata is not None:
            check_address(metadata)
        location = location_of(after)
        if location is None or (before is not None and location_of(before) == location):
            return
        location_keys(location, after.id)
        if kind in STORED_KINDS and not self._head.allow_overlaps:
            self._check_apart(location, after.id)

    def note(self, before: Entity | None, after: Entity | None, old: IndexedEntity | None) -> None:
        """Update the location index, and remember dropped entities for their retention."""
        was, now = (None if one is None else location_of(one) for one in (before, after))
        if before is not None and was is not None and was != now:
            for place in location_keys(was, before.id):
                self._location_index.remove(place)
        if after is not None and now is not None and was != now:
            for place in location_keys(now, after.id):
                self._location_index.put(place, kind_of(after).encode())
        if before is not None and after is None and old and old.named.kind in STORED_KINDS:
            path = self.entries.path(before.id)
            dropped = DroppedEntity(before.id, old.named.kind, old.named.object, path)
            self._dropped.put(key(dropping_at(self._head, self.now), before.id), dropped)

    def undrop(self, mutation: Undrop) -> MutationResult:
        """Restore an entity with its id, properties and metadata."""
        place, dropped = self._find_dropped(mutation)
        path = dropped.path if mutation.to is None else split(mutation.to)
        before = self.fetch(dropped.id, dropped.object)
        parent = self.free_place(path)
        after = self.next_version(msgspec.structs.replace(before, name=path[-1], parent=parent))
        self.check(None, after)
        self._dropped.remove(place)
        self.put(None, after)
        self.attempt.record(Change("add", path_key(path)))
        return MutationResult(MutationStatus.UNDROPPED, after)

    def _find_dropped(self, mutation: Undrop) -> tuple[bytes, DroppedEntity]:
        """The entity of that name that was dropped last and whose retention has not ended.

        It must not have ended by the clock of the last commit, either.
        """
        path = split(mutation.name)
        since = key(max(forget_before(self._head, max(self.now, self._head.committed_at)), 0))
        fitting = [
            (place, dropped)
            for place, dropped in self._dropped.items(since)
            if dropped.path == path and mutation.id in {None, dropped.id}
        ]
        if not fitting:
            raise EntityMissingError(
                f"nothing called {join(path)} was dropped that still keeps its files",
                hint="lakesweep catalog dropped CATALOG lists what can be brought back",
            )
        return fitting[-1]

    def _check_apart(self, location: str, number: int) -> None:
        for other, kind in self._locations.overlapping(location):
            if other == number or kind is EntityType.NAMESPACE:
                continue
            if self._is_there(other, location):
                name = join(self.entries.path(other))
                raise RefusedError(
                    "overlap",
                    f"{location} overlaps the location of {kind.words} {name}",
                    hint="choose another location, or allow overlaps in this catalog",
                )

    def _is_there(self, number: int, location: str) -> bool:
        """Whether an entity still has files at a location, which the index says it had."""
        found = self.entries.by_id(number)
        place = location_of(self.load(found)) if found else None
        return place is not None and not are_apart(place, location)


def forget_before(head: ContentCommit, now: int) -> int:
    """The moment before which dropped entities keep no files any more."""
    return now - head.keep_dropped_seconds * _SECOND


def dropping_at(head: ContentCommit, now: int) -> int:
    """The moment from which the retention of what is dropped now is counted.

    A clock that is behind must not shorten it. The log may be ahead of the clock by itself, but
    only by one microsecond per commit.
    """
    return head.committed_at if head.committed_at - now > _SECOND else now


def dropped_at(found: bytes) -> int:
    """When the entity of a key was dropped."""
    return int(decode(found)[0])
