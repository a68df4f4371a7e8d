"""Changes to entities, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from lakesweep.catalog.entities import Entity, EntityType, TableMemo
from lakesweep.catalog.entity_names import Name
from lakesweep.errors import LakesweepError


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


Mutation: TypeAlias = Create | Update | Rename | Drop | Undrop


class MutationStatus(StrEnum):
    """What became of one mutation."""

    CREATED = "created"
    UPDATED = "updated"
    RENAMED = "renamed"
    DROPPED = "dropped"
    UNDROPPED = "undropped"
    UNCHANGED = "unchanged"
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
