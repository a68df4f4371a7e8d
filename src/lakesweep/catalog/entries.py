"""How entities lie in a container: by parent and name, and by id.

A name key is (parent's id, rank, name). An entity is found by the id of its parent, not by the
parent's name, so a namespace that is renamed or moved takes all that is in it along by the change
of one key. Namespaces rank before everything else, so they are listed without a look at the
tables beside them; still a parent has one entity of a name only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakesweep.catalog.entities import NO_PARENT, CatalogDefinition, CatalogStatus, Entity, kind_of
from lakesweep.catalog.heads import Named
from lakesweep.catalog.kinds import Kind
from lakesweep.errors import DamagedRowError
from lakesweep.store import key
from lakesweep.store.index.keys import decode, prefix_end
from lakesweep.store.index.reading import Reading

NAMESPACES = 0
OTHERS = 1
#: Catalogs that are being purged: their names are free again.
LEAVING = 2


class Found(NamedTuple):
    """An entry of the name index."""

    key: bytes
    named: Named

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
    rank = NAMESPACES if kind_of(entity) is Kind.NAMESPACE else OTHERS
    return key(entity.parent, rank, entity.name)


class Entries:
    """Reads the entities of a container, be its indexes stored or about to change."""

    def __init__(self, names: Reading[Named], ids: Reading[bytes]) -> None:
        self._names = names
        self._ids = ids

    def child(self, parent: int, name: str) -> Found | None:
        """What is called so in a namespace."""
        for rank in (NAMESPACES, OTHERS):
            name_key = key(parent, rank, name)
            named = self._names.get(name_key)
            if named is not None:
                return Found(name_key, named)
        return None

    def find(self, path: tuple[str, ...]) -> Found | None:
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

    def by_id(self, number: int) -> Found | None:
        """What has this id."""
        name_key = self._ids.get(key(number))
        if name_key is None:
            return None
        named = self._names.get(name_key)
        if named is None:
            raise DamagedRowError(f"entity {number} has an id and no name")
        return Found(name_key, named)

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
    ) -> Iterator[Found]:
        """What lies directly in a namespace, from a key on; namespaces come first."""
        prefix = key(parent) if rank is None else key(parent, rank)
        items = self._names.items(prefix if start is None else start, prefix_end(prefix))
        return (Found(*item) for item in items)

    def is_empty(self, parent: int) -> bool:
        """Whether nothing lies in a namespace."""
        return next(self.children(parent), None) is None
