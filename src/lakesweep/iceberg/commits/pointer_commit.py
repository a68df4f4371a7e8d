"""Commit by a swap of the pointer that a catalog has to the current metadata file.

The new file is written first, under a name of its own, then the catalog is told to point to it if
it still points to the file that was loaded. So no other writer can come in between. A swap without
an answer is sent again: the same swap cannot take effect twice, and once the pointer has left the
loaded file, none that is still under way can take effect at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol
from uuid import uuid4

from lakesweep.clock import Clock, SystemClock, micros
from lakesweep.errors import (
    CommitConflictError,
    LakesweepError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedError,
)
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    MetadataChange,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.file_names import encode_file, write_metadata_name
from lakesweep.iceberg.document.requirements import check_requirements
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.metadata import read_file
from lakesweep.storage.address import parse
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.stores import Stores

_SWAPS = 3
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PointedFile:
    """Where a catalog points, and how its files are opened."""

    location: str
    stores: Stores = field(repr=False)


class TablePointer(Protocol):
    """The pointer of one table to its current metadata file."""

    @property
    def name(self) -> str:
        """The table's name, for people."""
        ...

    def look(self) -> PointedFile:
        """Where it points now, read consistently. NotFoundError if the table is gone."""
        ...

    def swap(self, before: str, after: str, document: RawDocument, /) -> bool:
        """Point to the file `after`, which holds `document`, if it still points to `before`.

        False if it points elsewhere. UnknownOutcomeError if there was no answer; any other error
        means that the pointer did not move.
        """
        ...

    def expired_by(self, table: LoadedTable) -> str | None:
        """Who else expires the snapshots of this table, if anybody is known to."""
        ...


@dataclass(frozen=True)
class PointerHandle:
    """A table whose pointer can be compared and swapped."""

    pointer: TablePointer
    clock: Clock = field(default_factory=SystemClock)
    new_uuid: Callable[[], object] = uuid4

    @property
    def name(self) -> str:
        return self.pointer.name

    def load(self) -> LoadedTable:
        found = self.pointer.look()
        return read_table(self.name, found.location, found.stores)

    def expired_by(self, table: LoadedTable) -> str | None:
        return self.pointer.expired_by(table)

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        try:
            document = changed_document(base, change, self.clock)
        except CommitConflictError as error:
            return CommitOutcome(CommitStatus.CONFLICT, reason=error.message)
        if document is base.document:
            return CommitOutcome(CommitStatus.UNCHANGED, base)
        path = write_metadata_name(document, base.location, str(self.new_uuid()))
        after = replace(base, location=path, document=RawDocument(path, document.fields))
        write_metadata(after)
        return self._swap(base, after)

    def _swap(self, base: LoadedTable, after: LoadedTable) -> CommitOutcome:
        try:
            if self.pointer.swap(base.location, after.location, after.document):
                return _committed(base, after)
        except UnknownOutcomeError as error:
            return self._settle(base, after, error)
        except LakesweepError as error:
            outcome = self._refused(base, after, error.message)
            if outcome.status is CommitStatus.CONFLICT:
                raise
            return outcome
        return self._refused(base, after, "another writer was faster")

    def _refused(self, base: LoadedTable, after: LoadedTable, reason: str) -> CommitOutcome:
        """Look even so: clients repeat requests themselves, and only the last one was refused."""
        try:
            return self._judge(base, after) or _conflict(after)
        except NotFoundError:
            raise
        except LakesweepError as error:
            return CommitOutcome(CommitStatus.UNKNOWN, reason=f"{reason}; {error.message}")

    def _settle(
        self, base: LoadedTable, after: LoadedTable, error: UnknownOutcomeError
    ) -> CommitOutcome:
        """Look whether the pointer moved; while it did not, send the swap again."""
        for _ in range(_SWAPS):
            try:
                outcome = self._judge(base, after)
                if outcome is not None:
                    return outcome
                if self.pointer.swap(base.location, after.location, after.document):
                    return _committed(base, after)
            except LakesweepError:
                self.clock.sleep(_PAUSE_SECONDS)
        return CommitOutcome(CommitStatus.UNKNOWN, reason=error.message)

    def _judge(self, base: LoadedTable, after: LoadedTable) -> CommitOutcome | None:
        """Which file followed the base decides; None while the pointer did not move."""
        now = self.load()
        if now.location == base.location:
            return None
        follower = next_file(now, base.location)
        if follower == after.location:
            return _committed(base, after)
        if follower is not None:
            return _conflict(after)
        reason = f"{base.location} is no longer in the log of {self.name}"
        return CommitOutcome(CommitStatus.UNKNOWN, reason=reason)


def changed_document(base: LoadedTable, change: MetadataChange, clock: Clock) -> RawDocument:
    """The document after a change; the same one if nothing changes."""
    check_requirements(base.document, change.requirements)
    now_ms = micros(clock.now()) // 1000
    return apply_table_updates(base.document, change.updates, now_ms=now_ms, location=base.location)


def read_table(name: str, location: str, stores: Stores) -> LoadedTable:
    """A table as a metadata file describes it."""
    document = RawDocument.parse(location, read_file(stores, location), stores.limits)
    return LoadedTable(name, location, document, stores)


def next_file(table: LoadedTable, location: str) -> str | None:
    """The metadata file that replaced another one, as far back as the log reaches."""
    files = [*(line.metadata_file for line in table.document.metadata_log()), table.location]
    return next((new for old, new in pairwise(files) if old == location), None)


def write_metadata(table: LoadedTable) -> None:
    """Write a new metadata file, and read it back before anything points to it."""
    address, data = parse(table.location), encode_file(table.document, table.location)
    store = table.stores.open(address)
    try:
        store.write_new(address.key, data)
    except UnsupportedError:
        store.write(address.key, data)  # the name is new in any case
    if store.read(address.key) != data:
        raise StorageError(table.location, "does not hold what was written to it")


def remove_unused(table: LoadedTable) -> str | None:
    """Delete a metadata file that nothing points to; why it is still there, if it is."""
    address = parse(table.location)
    try:
        (deletion,) = table.stores.open(address).delete([address.key])
    except LakesweepError as error:
        return error.message
    is_gone = deletion.outcome in (Outcome.DELETED, Outcome.ABSENT)
    return None if is_gone else deletion.reason or deletion.outcome


def _committed(base: LoadedTable, after: LoadedTable) -> CommitOutcome:
    return CommitOutcome(CommitStatus.COMMITTED, after, base=base)


def _conflict(after: LoadedTable) -> CommitOutcome:
    left = remove_unused(after)
    unused = f"; {after.location} is not used and could not be deleted: {left}" if left else ""
    return CommitOutcome(CommitStatus.CONFLICT, reason=f"another writer was faster{unused}")
