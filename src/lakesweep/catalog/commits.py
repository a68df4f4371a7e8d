"""Changes to entities, and the commits of a realm's references that hold them.

Every container of entities has a name index and an id index; every commit has its change
records. Whatever an index or a commit refers to is a Link or an IndexRoot, so the store's
generic reachability walk finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import msgspec

from lakesweep.catalog import entities
from lakesweep.catalog.entities import Entity, EntityType, Name, TableMemo
from lakesweep.errors import LakesweepError
from lakesweep.store import NO_INDEX, Commit, IndexRoot, Link, Packed
from lakesweep.store.index import BYTES

#: How long dropped tables still keep their files, unless a catalog says otherwise.
KEEP_DROPPED_SECONDS = 7 * 86400


class NameEntry(msgspec.Struct, frozen=True, array_like=True):
    """What the name index has of an entity: enough to list it without reading its object."""

    id: int
    kind: EntityType
    object: Link


class DroppedEntity(msgspec.Struct, frozen=True, array_like=True):
    """An entity that was dropped, and what it was called then, from the top down."""

    id: int
    kind: EntityType
    object: Link
    path: tuple[str, ...]


class AnsweredRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request that was carried out: what it asked for, hashed, and the answer if it was short."""

    at: int
    asked: bytes
    answer: bytes = b""


class EntitiesCommit(Commit, frozen=True, kw_only=True):
    """Entities by name and by id.

    `names` leads from parent, rank and name to Named; `ids` from the id to that key.
    """

    names: IndexRoot = NO_INDEX
    ids: IndexRoot = NO_INDEX


class RootCommit(Commit, frozen=True, kw_only=True):
    """The head of `root`."""

    root: Link


class CatalogsCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `catalogs`."""


class PrincipalsCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `principals`; `clients` leads from client ids to ids."""

    clients: IndexRoot = NO_INDEX


class PrincipalRolesCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `principal-roles`."""


class CatalogRolesCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `cat/ID/roles`."""


class TasksCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `immediate-tasks`."""


class ContentCommit(EntitiesCommit, frozen=True, kw_only=True):
    """The head of `cat/ID/heads/main`: everything in one catalog.

    `locations` leads from the parts of a location and an id to a kind, `dropped` from the moment
    and the id to Dropped, `requests` from keys of requests to AnsweredRequest. What governs the
    content lies here as well, to change together with it: a catalog that is `closed` takes nothing
    new, since it is about to go.
    """

    catalog: int
    locations: IndexRoot = NO_INDEX
    dropped: IndexRoot = NO_INDEX
    keep_dropped_seconds: int = KEEP_DROPPED_SECONDS
    allow_overlaps: bool = False
    closed: bool = False
    requests: IndexRoot = NO_INDEX


class GrantsCommit(Commit, frozen=True, kw_only=True):
    """The head of `grants` and of `cat/ID/grants`.

    `grants` leads from securable and grantee to Grant; `grantees` from grantee to securable.
    """

    grants: IndexRoot = NO_INDEX
    grantees: IndexRoot = NO_INDEX


class MappingsCommit(Commit, frozen=True, kw_only=True):
    """The head of `policy-mappings`.

    `mappings` leads from target, type of policy and policy to Mapping; `policies` from policy to
    target.
    """

    mappings: IndexRoot = NO_INDEX
    policies: IndexRoot = NO_INDEX


NAMED = Packed(NameEntry)
DROPPED = Packed(DroppedEntity)
REQUESTS = Packed(AnsweredRequest)
#: Keys of the name index.
KEYS = BYTES
#: The types that a store must know to hold all this.
TYPES: Mapping[str, type[msgspec.Struct]] = {
    "catalog-root": RootCommit,
    "catalogs": CatalogsCommit,
    "principals": PrincipalsCommit,
    "principal-roles": PrincipalRolesCommit,
    "catalog-roles": CatalogRolesCommit,
    "tasks": TasksCommit,
    "catalog-content": ContentCommit,
    "grants": GrantsCommit,
    "policy-mappings": MappingsCommit,
    "root": entities.RootEntity,
    "catalog": entities.CatalogDefinition,
    "namespace": entities.Namespace,
    "iceberg-table": entities.Table,
    "iceberg-view": entities.View,
    "table-memo": entities.TableMemo,
    "generic-table": entities.GenericTable,
    "policy": entities.CatalogPolicy,
    "principal": entities.Principal,
    "principal-role": entities.PrincipalRole,
    "catalog-role": entities.CatalogRole,
    "task": entities.ScheduledTask,
}


@dataclass(frozen=True, slots=True)
class Create:
    """Add an entity. `memo` is what the metadata file of a table or view says, if it was read."""

    name: Name
    what: Entity
    memo: TableMemo | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Replace what an entity says of itself by what `what` says; name and place stay.

    With a `version`, only if the entity still has it.
    """

    name: Name
    what: Entity
    version: int | None = None
    memo: TableMemo | None = None


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename or move an entity, together with everything in it."""

    name: Name
    to: Name
    version: int | None = None
    kind: EntityType | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Take an entity out; with a `kind`, only if it is one. Namespaces must be empty."""

    name: Name
    version: int | None = None
    kind: EntityType | None = None


@dataclass(frozen=True, slots=True)
class Undrop:
    """Bring back, as it was, what was dropped under a name and still keeps its files.

    It is what was dropped last, unless an `id` says which. It comes back under its old name, or
    under another that is free.
    """

    name: Name
    to: Name | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """Note that a request is carried out by this batch; fails if an earlier one did it.

    `key` is what its client calls it, each time that it sends it.
    """

    key: bytes
    asked: bytes
    answer: bytes = b""


Mutation: TypeAlias = Create | Update | Rename | Drop | Undrop | Remember


class MutationStatus(StrEnum):
    """What became of one mutation."""

    CREATED = "created"
    UPDATED = "updated"
    RENAMED = "renamed"
    DROPPED = "dropped"
    UNDROPPED = "undropped"
    UNCHANGED = "unchanged"
    REMEMBERED = "remembered"
    FAILED = "failed"
    #: It would have been done, had no other of the batch failed.
    NOT_APPLIED = "not-applied"


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What became of one mutation, and the entity as it is now; before the end, if dropped."""

    status: MutationStatus
    entity: Entity | None = None
    error: LakesweepError | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch: all of it was done, or nothing.

    `commit` is the id of its commit; None if nothing had to be changed, or something failed.
    """

    results: Sequence[MutationResult]
    commit: int | None = None

    @property
    def error(self) -> LakesweepError | None:
        """The first failure."""
        return next((result.error for result in self.results if result.error), None)
