"""Remove entries whose target is gone: grants, policy mappings, tasks, expired drops.

For each batch the entries are read first and the existing entities afterwards. An entity is
created before it is granted, so every target of a batch is seen unless it is really gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

import msgspec

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import END_CATALOG, Catalogs
from lakesweep.catalog.commits import ContentCommit
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.containers.content_batch import ContentBatch
from lakesweep.catalog.containers.entity_index import EntityIndex
from lakesweep.catalog.entities import CONTENT_KINDS, CatalogDefinition, EntityType
from lakesweep.catalog.grants import EntityRef, Grant, Grants
from lakesweep.catalog.policy_mappings import PolicyMapping
from lakesweep.errors import ReferenceMissingError
from lakesweep.store import Attempt

#: Grants or mappings that are checked in one batch.
BATCH = 256
_FORGOTTEN_AT_ONCE = 10_000


class _Keyed(Protocol):
    @property
    def key(self) -> bytes: ...


T = TypeVar("T", bound=_Keyed)


@dataclass(slots=True)
class ExistingEntities:
    """Tells what is there; each container is read once, on first use, as it is then."""

    catalogs: Catalogs
    _known: dict[tuple[EntityType, int], EntityIndex | None] = field(default_factory=dict)

    def has(self, target: EntityRef) -> bool:
        """Whether an entity is there."""
        if target.kind is EntityType.ROOT:
            return True
        entries = self._entries(target)
        return entries is not None and entries.by_id(target.id) is not None

    def _entries(self, target: EntityRef) -> EntityIndex | None:
        place = _place(target)
        if place not in self._known:
            try:
                view = self._container(target).snapshot(fresh=True)
                self._known[place] = view.entries
            except ReferenceMissingError:
                self._known[place] = None
        return self._known[place]

    def _container(self, target: EntityRef) -> EntityContainer[Any]:
        match target.kind:
            case EntityType.CATALOG:
                return self.catalogs
            case EntityType.PRINCIPAL:
                return self.catalogs.principals
            case EntityType.PRINCIPAL_ROLE:
                return self.catalogs.principal_roles
            case EntityType.CATALOG_ROLE:
                return self._catalog(target).roles
            case _:
                return self._catalog(target)

    def _catalog(self, target: EntityRef) -> Catalog:
        # Of a catalog that is gone the references are, so it need not be looked for by name.
        return Catalog(self.catalogs.realm, CatalogDefinition(id=target.catalog))


def _place(target: EntityRef) -> tuple[EntityType, int]:
    """Which container an entity is in: all content of a catalog is in one."""
    if target.kind in CONTENT_KINDS:
        return EntityType.NAMESPACE, target.catalog
    return target.kind, target.catalog if target.kind is EntityType.CATALOG_ROLE else 0


def remove_stale_grants(catalogs: Catalogs, *, dry_run: bool) -> int:
    """Remove grants of which one end is gone; how many."""
    return sum(_tidy_grants(catalogs, grants, dry_run=dry_run) for grants in _all_grants(catalogs))


def remove_stale_mappings(catalogs: Catalogs, *, dry_run: bool) -> int:
    """Remove policy mappings of which one end is gone; how many."""
    mappings = catalogs.mappings
    stale = _stale(catalogs, mappings.all, _ends_of_mapping)
    remove = partial(mappings.remove, message="remove mappings of what is gone")
    return sum(len(batch) if dry_run else remove(batch) for batch in stale)


def remove_stale_tasks(catalogs: Catalogs, *, dry_run: bool) -> int:
    """Remove tasks whose target is gone; how many. Of types that are not known all stay."""
    tasks = [task for task in catalogs.tasks.all() if task.type == END_CATALOG]
    presence = ExistingEntities(catalogs)
    gone = [task for task in tasks if not presence.has(EntityRef(EntityType.CATALOG, task.target))]
    return len(gone) if dry_run else sum(map(catalogs.tasks.finish, gone))


def end_due_catalogs(catalogs: Catalogs, *, dry_run: bool, holder: str) -> int:
    """End purged catalogs whose time has come; how many."""
    if not dry_run:
        return len(catalogs.end_due(holder))
    now = catalogs.now()
    return sum(catalogs.ends_at(catalog) <= now for catalog in catalogs.leaving())


def forget_expired_drops(catalogs: Catalogs, *, dry_run: bool) -> int:
    """Forget dropped entities that keep no files any more; how many."""
    return sum(_forget(catalog, dry_run=dry_run) for catalog in catalogs.every(fresh=True))


def _forget(catalog: Catalog, *, dry_run: bool) -> int:
    forgotten = 0

    def change(attempt: Attempt[ContentCommit]) -> ContentCommit | None:
        nonlocal forgotten
        if attempt.head is None:
            return None
        batch = ContentBatch(attempt, attempt.head, catalog.now(), catalog.realm.new_id)
        forgotten = batch.forget_dropped(_FORGOTTEN_AT_ONCE)
        if dry_run or not forgotten:
            return None
        return msgspec.structs.replace(attempt.head, **batch.indexes())

    try:
        catalog.realm.commit(
            catalog.reference, change, ContentCommit, message="forget what was dropped long ago"
        )
    except ReferenceMissingError:
        return 0  # the catalog came to its end meanwhile
    return forgotten


def _tidy_grants(catalogs: Catalogs, grants: Grants, *, dry_run: bool) -> int:
    stale = _stale(catalogs, grants.all, _ends_of_grant)
    remove = partial(grants.remove, message="remove grants of what is gone")
    try:
        return sum(len(batch) if dry_run else remove(batch) for batch in stale)
    except ReferenceMissingError:
        return 0  # the catalog came to its end meanwhile


def _all_grants(catalogs: Catalogs) -> Iterator[Grants]:
    yield catalogs.grants
    yield from (catalog.grants for catalog in catalogs.every(fresh=True))


def _stale(
    catalogs: Catalogs,
    read: Callable[[bytes], Iterable[T]],
    ends: Callable[[T], Sequence[EntityRef]],
) -> Iterator[list[T]]:
    """What names something that is gone, batch by batch."""
    behind = b""
    while batch := list(islice(read(behind), BATCH)):
        presence = ExistingEntities(catalogs)  # read again for each batch, and only after it
        stale = [each for each in batch if not all(map(presence.has, ends(each)))]
        if stale:
            yield stale
        behind = batch[-1].key + b"\x00"


def _ends_of_grant(grant: Grant) -> Sequence[EntityRef]:
    return grant.securable, grant.grantee


def _ends_of_mapping(mapping: PolicyMapping) -> Sequence[EntityRef]:
    return mapping.target, mapping.policy
