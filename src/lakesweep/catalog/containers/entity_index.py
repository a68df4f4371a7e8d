"""How a container indexes its entities: by parent and name, and by id.

A name key is (parent's id, rank, name). Because the parent is named by id, renaming or moving
a namespace changes one key and takes its content along. Namespaces rank before everything
else, so listing them skips the tables beside them; a name is still unique within its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakesweep.catalog.commits import NameEntry
from lakesweep.catalog.entities import (
    NO_PARENT,
    CatalogDefinition,
    CatalogStatus,
    Entity,
    EntityType,
    kind_of,
)
from lakesweep.errors import DamagedRowError
from lakesweep.store import key
from lakesweep.store.index.index import ReadableIndex
from lakesweep.store.index.keys import decode, prefix_end

NAMESPACES = 0
OTHERS = 1
#: Catalogs that are being purged: their names are free again.
LEAVING = 2


class IndexedEntity(NamedTuple):
    """An entry of the name index."""

    key: bytes
    named: NameEntry

    @property
    def parent(self) -> int:
        return int(decode(self.key)[0])

    @property
    def name(self) -> str:
        return str(decode(self.key)[2])


def key_of(entity: Entity) -> bytes:
    """The key that an entity has in the name index."""
    if isinstance(entity, CatalogDefinition) and entity.status is CatalogStatus.PURGING:
        return key(entity.parent, LEAVING, entity.name, entity.id)
    rank = NAMESPACES if kind_of(entity) is EntityType.NAMESPACE else OTHERS
    return key(entity.parent, rank, entity.name)


class EntityIndex:
    """Reads the entities of a container, be its indexes stored or about to change."""

    def __init__(self, names: ReadableIndex[NameEntry], ids: ReadableIndex[bytes]) -> None:
        self._names = names
        self._ids = ids

    def child(self, parent: int, name: str) -> IndexedEntity | None:
        """What is called so in a namespace."""
        for rank in (NAMESPACES, OTHERS):
            name_key = key(parent, rank, name)
            named = self._names.get(name_key)
            if named is not None:
                return IndexedEntity(name_key, named)
        return None

    def find(self, path: tuple[str, ...]) -> IndexedEntity | None:
        """What has this path."""
        parent = self.parent(path)
        return None if parent is None else self.child(parent, path[-1])

    def parent(self, path: tuple[str, ...]) -> int | None:
        """The id of the namespace that a path lies in; None if there is none."""
        parent = NO_PARENT
        for name in path[:-1]:
            named = self._names.get(key(parent, NAMESPACES, name))
            if named is None:
                return None
            parent = named.id
        return parent

    def by_id(self, number: int) -> IndexedEntity | None:
        """What has this id."""
        name_key = self._ids.get(key(number))
        if name_key is None:
            return None
        named = self._names.get(name_key)
        if named is None:
            raise DamagedRowError(f"entity {number} has an id and no name")
        return IndexedEntity(name_key, named)

    def path(self, number: int) -> tuple[str, ...]:
        """What an entity is called, from the top down."""
        names: list[str] = []
        while number != NO_PARENT:
            found = self.by_id(number)
            if found is None:
                raise DamagedRowError(f"entity {number} is missing, and others lie in it")
            names.append(found.name)
            number = found.parent
        return tuple(reversed(names))

    def lies_in(self, number: int, namespace: int) -> bool:
        """Whether an entity is a namespace, or lies anywhere below it."""
        while number not in {namespace, NO_PARENT}:
            found = self.by_id(number)
            number = NO_PARENT if found is None else found.parent
        return number == namespace

    def children(
        self, parent: int, rank: int | None = None, start: bytes | None = None
    ) -> Iterator[IndexedEntity]:
        """What lies directly in a namespace, from a key on; namespaces come first."""
        prefix = key(parent) if rank is None else key(parent, rank)
        items = self._names.items(prefix if start is None else start, prefix_end(prefix))
        return (IndexedEntity(*item) for item in items)

    def is_empty(self, parent: int) -> bool:
        """Whether nothing lies in a namespace."""
        return next(self.children(parent), None) is None
