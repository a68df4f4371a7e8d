"""One container as of one commit, and its listing in pages.

All pages of a listing show the same state. A page token names the commit that the first page
was read from and the key to continue at, so it works in every process while the commit exists.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from lakesweep.catalog.commits import (
    DROPPED,
    KEYS,
    NAMED,
    ContentCommit,
    DroppedEntity,
    EntitiesCommit,
)
from lakesweep.catalog.containers.content_batch import dropped_at, forget_before
from lakesweep.catalog.containers.entity_batch import entity_missing
from lakesweep.catalog.containers.entity_index import NAMESPACES, EntityIndex, IndexedEntity
from lakesweep.catalog.containers.locations import Locations, are_apart, location_of
from lakesweep.catalog.entities import NO_PARENT, Entity, EntityType, Name, split
from lakesweep.decoding import typed_msgpack
from lakesweep.errors import (
    DamagedRowError,
    EntityMissingError,
    NewerRowError,
    SnapshotExpiredError,
    UsageError,
    WrongTypeError,
)
from lakesweep.store import Realm, Stored, key

Head = TypeVar("Head", bound=EntitiesCommit)
E = TypeVar("E", bound=Entity)


PAGE_SIZE = 100


class ContainerSnapshot(Generic[Head]):
    """The entities as of one commit, unaffected by later changes."""

    def __init__(self, realm: Realm, stored: Stored[Head]) -> None:
        self._realm = realm
        self.commit = stored.id
        self.head = stored.value
        self.entries = EntityIndex(
            realm.index(self.head.names, NAMED), realm.index(self.head.ids, KEYS)
        )

    def find(self, name: Name, kind: EntityType | None = None) -> Entity | None:
        """The entity of a name, if there is one, and of this kind."""
        found = self.entries.find(split(name))
        if found is None or kind not in {None, found.named.kind}:
            return None
        return self.load([found])[0]

    def get(self, name: Name, kind: EntityType | None = None) -> Entity:
        """The entity of a name. EntityMissingError if there is none, or none of this kind."""
        path = split(name)
        found = self.entries.find(path)
        if found is None or kind not in {None, found.named.kind}:
            raise entity_missing(path, kind, found)
        return self.load([found])[0]

    def by_id(self, number: int) -> Entity:
        """The entity of an id. EntityMissingError if there is none."""
        found = self.entries.by_id(number)
        if found is None:
            raise EntityMissingError(f"there is no entity with the id {number}")
        return self.load([found])[0]

    def path(self, entity: Entity) -> tuple[str, ...]:
        """The full name of an entity."""
        parents = self.entries.path(entity.parent) if entity.parent != NO_PARENT else ()
        return (*parents, entity.name)

    def load(self, entries: Sequence[IndexedEntity]) -> Sequence[Entity]:
        """The entities of some entries, in one round trip."""
        objects = self._realm.objects.fetch_many([each.named.object for each in entries], Entity)
        return [
            _there(each.named.id, stored) for each, stored in zip(entries, objects, strict=True)
        ]

    def children(
        self, within: Name | None = None, *, namespaces: bool = False
    ) -> Iterator[IndexedEntity]:
        """The names in a namespace or at the top, without reading more than the name index."""
        rank = NAMESPACES if namespaces else None
        return self.entries.children(self._namespace(within), rank)

    def all(self, within: Name | None = None) -> Iterator[tuple[tuple[str, ...], IndexedEntity]]:
        """Everything below a namespace or the top with its path, parents before children."""
        waiting = [(() if within is None else split(within), self._namespace(within))]
        while waiting:
            path, parent = waiting.pop()
            for found in self.entries.children(parent):
                below = (*path, found.name)
                yield below, found
                if found.named.kind is EntityType.NAMESPACE:
                    waiting.append((below, found.named.id))

    def page(
        self,
        within: Name | None = None,
        kinds: Collection[EntityType] | None = None,
        *,
        size: int = PAGE_SIZE,
        start: bytes | None = None,
    ) -> tuple[Sequence[IndexedEntity], bytes | None]:
        """Some entries of a namespace or the top, and the key of the next one."""
        check_page_size(size)
        rank = NAMESPACES if kinds is not None and set(kinds) == {EntityType.NAMESPACE} else None
        found = self.entries.children(self._namespace(within), rank, start)
        wanted = (each for each in found if kinds is None or each.named.kind in kinds)
        *some, after = [*islice(wanted, size + 1), None][: size + 1]
        return [each for each in some if each], after.key if after else None

    def _namespace(self, within: Name | None) -> int:
        if within is None or within == ():
            return NO_PARENT
        path = split(within)
        found = self.entries.find(path)
        if found is None or found.named.kind is not EntityType.NAMESPACE:
            raise entity_missing(path, EntityType.NAMESPACE, found)
        return found.named.id


class ContentSnapshot(ContainerSnapshot[ContentCommit]):
    """The content of a catalog as one commit has it."""

    def at(self, address: str) -> Iterator[tuple[Entity, tuple[str, ...]]]:
        """The entities at, above and below an address, with their paths, from the top down."""
        locations = Locations(self._realm.index(self.head.locations, KEYS))
        for number, _ in locations.overlapping(address):
            found = self.entries.by_id(number)
            if found is not None:
                (entity,) = self.load([found])
                place = location_of(entity)
                if place is not None and not are_apart(place, address):
                    yield entity, self.entries.path(number)

    def dropped(self, now: int) -> Iterator[tuple[int, DroppedEntity]]:
        """Dropped entities that still retain their files, with their times, oldest first."""
        since = key(max(forget_before(self.head, now), 0))
        for found, dropped in self._realm.index(self.head.dropped, DROPPED).items(since):
            yield dropped_at(found), dropped

    def load_dropped(self, dropped: Sequence[DroppedEntity]) -> Sequence[Entity]:
        """The entities as they were when they were dropped."""
        objects = self._realm.objects.fetch_many([each.object for each in dropped], Entity)
        return [_there(each.id, stored) for each, stored in zip(dropped, objects, strict=True)]


def list_page(
    realm: Realm,
    snapshot: Callable[[Stored[Head] | None], ContainerSnapshot[Head]],
    head: type[Head],
    scope: str,
    token: str | None,
    *,
    within: Name | None = None,
    kinds: Collection[EntityType] | None = None,
    size: int = PAGE_SIZE,
) -> EntityPage[Entity]:
    """A page of a listing; `snapshot` makes one of a commit, or of the newest."""
    if token is None:
        view, start = snapshot(None), None
    else:
        position = read_token(token, scope)
        view, start = snapshot(_commit(realm, position.commit, head)), position.start
    with _expiring(token):
        found, after = view.page(within, kinds, size=size, start=start)
        entities = view.load(found)
    following = None if after is None else write_token(PagePosition(scope, view.commit, after))
    return EntityPage(entities, following)


def _commit(realm: Realm, number: int, kind: type[Head]) -> Stored[Head]:
    try:
        stored = realm.stored.fetch(number, kind)
    except WrongTypeError as error:
        raise UsageError("this is not a page token of this listing") from error
    if stored is None:
        raise _expired()
    return stored


@contextmanager
def _expiring(token: str | None) -> Iterator[None]:
    """The objects of an old commit may have been deleted by maintenance."""
    try:
        yield
    except NewerRowError:
        raise
    except DamagedRowError as error:
        if token is None:
            raise
        raise _expired() from error


def _expired() -> SnapshotExpiredError:
    return SnapshotExpiredError("the state that this page token is of is no longer kept")


def _there(number: int, stored: Stored[E] | None) -> E:
    if stored is None:
        raise DamagedRowError(f"the object of entity {number} is missing")
    return stored.value


T = TypeVar("T")


MAX_PAGE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class EntityPage(Generic[T]):
    """Some entries of a listing; `token` asks for the next ones, and is None on the last page."""

    items: Sequence[T]
    token: str | None


class PagePosition(msgspec.Struct, frozen=True, array_like=True):
    """What a token says: in which listing, of which commit, from which key on."""

    scope: str
    commit: int
    start: bytes


def write_token(position: PagePosition) -> str:
    """The token of a position."""
    data = msgspec.msgpack.encode(position)
    checked = binascii.crc32(data).to_bytes(4, "big") + data
    return base64.urlsafe_b64encode(checked).decode().rstrip("=")


def read_token(token: str, scope: str) -> PagePosition:
    """The position of a token; UsageError if it is none, or one of another listing."""
    wrong = UsageError("this is not a page token of this listing", hint="list from the first page")
    try:
        checked = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        position = typed_msgpack(checked[4:], PagePosition)
    except (ValueError, msgspec.MsgspecError) as error:
        raise wrong from error
    if checked[:4] != binascii.crc32(checked[4:]).to_bytes(4, "big") or position.scope != scope:
        raise wrong
    return position


def check_page_size(size: int) -> None:
    """UsageError unless this is a valid page size."""
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise UsageError(f"a page has 1 to {MAX_PAGE_SIZE:,} entries, not {size}")
