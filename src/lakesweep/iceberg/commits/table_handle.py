"""A table that can be changed through its catalog: load it, commit a change, retry after conflicts.

The rule of every implementation: what is committed replaces exactly the state that was loaded, or
nothing. Where a server only checks requirements, all refs are asserted, and what the server did is
looked at afterwards. An unknown outcome is settled by looking, never by guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from lakesweep.clock import Clock, SystemClock
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
)
from lakesweep.iceberg.document.updates import RemovePartitionSpecs, RemoveSchemas, TableUpdate

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

#: As often as Iceberg's own clients try.
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.1
_MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as its catalog had it at one moment.

    `location` is its metadata file and `stores` open its files with the access that the catalog
    grants. `token` is what a REST server wants to see when this table is changed.
    """

    name: str
    location: str
    document: RawDocument
    stores: Stores = field(repr=False, compare=False)
    token: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What to change in a document, and what must still hold when it is changed."""

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...] = ()

    @classmethod
    def of(cls, document: RawDocument, updates: Iterable[TableUpdate]) -> MetadataChange:
        """A change that fails if any known ref moved, was removed, or was created."""
        updates = tuple(updates)
        return cls(updates, tuple(_requirements(document, updates)))


def _requirements(
    document: RawDocument, updates: tuple[TableUpdate, ...]
) -> Iterable[TableRequirement]:
    uuid: str | None = document.get("table-uuid", str | None)
    if uuid is not None:
        yield AssertTableUuid(uuid=uuid)
    for name, ref in document.refs().items():
        yield AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
    if any(isinstance(update, RemoveSchemas) for update in updates):
        current = document.get("current-schema-id", int | None)
        yield AssertCurrentSchemaId(current_schema_id=current or 0)
    if any(isinstance(update, RemovePartitionSpecs) for update in updates):
        default = document.get("default-spec-id", int | None)
        yield AssertDefaultSpecId(default_spec_id=default or 0)


class CommitStatus(StrEnum):
    """What became of a change.

    CONFLICT: another writer was faster, so decide again. REFUSED: the catalog will not take it.
    UNKNOWN: there was no answer, and looking did not settle it; nothing may be deleted.
    """

    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What became of a change.

    `table` is the state afterwards, if it was committed, and `base` the state that the catalog
    really applied the change to. It is another one than was loaded if another writer came in
    between, which only servers allow; None if it could not be read, and then nothing may be
    deleted. `lost_refs` are refs of `base`, with their snapshots, that the commit removed although
    the change does not name them: then nothing may be deleted either.
    """

    status: CommitStatus
    table: LoadedTable | None = None
    reason: str | None = None
    base: LoadedTable | None = None
    lost_refs: Mapping[str, int] = field(default_factory=dict)


class TableHandle(Protocol):
    """One table in one catalog."""

    @property
    def name(self) -> str:
        """The table's name, for people."""
        ...

    def load(self) -> LoadedTable:
        """The table as it is now, with all its snapshots. NotFoundError if it is gone."""
        ...

    def expired_by(self, table: LoadedTable) -> str | None:
        """Who else expires the snapshots of this table, if anybody is known to."""
        ...

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        """Apply a change to exactly the loaded state.

        Errors mean that nothing was committed, and that trying again is of no use.
        """
        ...


def commit_with_retries(
    handle: TableHandle,
    decide: Callable[[LoadedTable], MetadataChange | None],
    *,
    attempts: int = _ATTEMPTS,
    clock: Clock | None = None,
) -> CommitOutcome:
    """Load, decide and commit until no other writer comes in between.

    Each attempt decides from nothing: what was right to remove from the last state may be needed
    in this one. `decide` returns None if there is nothing to change.
    """
    clock = clock or SystemClock()
    outcome = CommitOutcome(CommitStatus.CONFLICT, reason="no attempt was made")
    for attempt in range(attempts):
        clock.sleep(_PAUSE_SECONDS * (2 ** min(attempt, _MOST_DOUBLINGS) - 1))
        base = handle.load()
        change = decide(base)
        if change is None:
            return CommitOutcome(CommitStatus.UNCHANGED, base)
        outcome = handle.commit(base, change)
        if outcome.status is not CommitStatus.CONFLICT:
            return outcome
    return outcome
