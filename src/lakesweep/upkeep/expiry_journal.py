"""What an expiry is about to delete, written down before its commit; and what became of one.

After the commit nothing names the files that only the removed snapshots held. So they are
journaled first, with the state that the commit was made for. A run that finds the journal of a dead
one asks the table what happened:

- the snapshots are still there: nothing was committed, and nothing is to be deleted;
- they are gone, and the commit took no ref along: the files may be deleted;
- a ref that the expiry did not name was lost in the commit, or it cannot be told: the files stay,
  because the metadata before the commit needs them when the ref is restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.metadata import read_file
from lakesweep.storage.address import identity
from lakesweep.storage.deleting.journal import (
    Journal,
    JournaledTable,
    JournalLog,
    write_journal,
)
from lakesweep.storage.file_batches import file_batch
from lakesweep.upkeep.proposal import ExpiryProposal


class _Note(StrEnum):
    """Rows of a journal that are no files, by their `kind`; `path` has the value."""

    BASE = "note: base metadata"
    SNAPSHOT = "note: removed snapshot"
    REF = "note: removed ref"
    QUARANTINE = "note: quarantine of plan"


_NOTES = pa.array([each.value for each in _Note], pa.string())


def journaled(table: LoadedTable) -> JournaledTable:
    """Where the journals of a table are: below its location."""
    location: str = table.document.get("location", str | None) or table.location
    return JournaledTable(table.stores, location.rstrip("/") + "/")


def write_expiry(
    proposal: ExpiryProposal,
    log: JournalLog,
    files: Iterable[pa.RecordBatch],
    quarantine: str | None = None,
) -> Journal:
    """Write what a proposal will delete, and have the store vouch for it.

    `quarantine` is the plan in whose quarantine the files will be.
    """
    return write_journal(journaled(proposal.base), log, _rows(proposal, files, quarantine))


def _rows(
    proposal: ExpiryProposal, files: Iterable[pa.RecordBatch], quarantine: str | None
) -> Iterator[pa.RecordBatch]:
    decision = proposal.decision
    plans = [] if quarantine is None else [(quarantine, None)]
    yield file_batch(_Note.QUARANTINE, plans)
    yield file_batch(_Note.BASE, [(proposal.base.location, None)])
    yield file_batch(_Note.SNAPSHOT, ((str(each.id), None) for each in decision.expiring))
    yield file_batch(_Note.REF, ((each.name, None) for each in decision.removed_refs))
    yield from files


class InterruptedState(StrEnum):
    """What became of an expiry whose run died."""

    NOT_COMMITTED = "not committed"
    COMMITTED = "committed"
    REF_LOST = "a ref was lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InterruptedExpiry:
    """The journal of a dead run, and what became of its commit.

    `lost_refs` and `base` say what to restore, and from which metadata file. The files go to the
    quarantine of a plan, if there is one.
    """

    journal: Journal
    state: InterruptedState
    lost_refs: tuple[str, ...] = ()
    base: str | None = None
    quarantine: str | None = None

    def files(self) -> Iterator[pa.RecordBatch]:
        """The files that it was about to delete."""
        for batch in self.journal.batches():
            yield batch.filter(pc.invert(pc.is_in(batch["kind"], _NOTES)))


def examine(journal: Journal, table: LoadedTable) -> InterruptedExpiry:
    """What became of the expiry that wrote a journal. DamagedError if the journal was changed."""
    base, snapshots, refs, quarantine = "", set[int](), set[str](), None
    for batch in journal.batches():
        notes = batch.filter(pc.is_in(batch["kind"], _NOTES))
        for kind, value in zip(notes["kind"].to_pylist(), notes["path"].to_pylist(), strict=True):
            match _Note(kind):
                case _Note.BASE:
                    base = value
                case _Note.SNAPSHOT:
                    snapshots.add(int(value))
                case _Note.REF:
                    refs.add(value)
                case _Note.QUARANTINE:
                    quarantine = value
    left = {each.snapshot_id for each in table.document.snapshots()} & snapshots
    if left or not snapshots:
        return InterruptedExpiry(journal, InterruptedState.NOT_COMMITTED)
    found = _around_commit(table, base, snapshots)
    if found is None:
        return InterruptedExpiry(journal, InterruptedState.UNKNOWN, base=base)
    before, after = found
    lost = set(before.refs()) - set(after.refs()) - refs
    if lost:
        names = tuple(sorted(lost))
        return InterruptedExpiry(journal, InterruptedState.REF_LOST, names, before.path)
    return InterruptedExpiry(journal, InterruptedState.COMMITTED, quarantine=quarantine)


def _around_commit(
    table: LoadedTable, base: str, snapshots: set[int]
) -> tuple[RawDocument, RawDocument] | None:
    """The metadata right before and after snapshots were removed; None if it cannot be found."""
    paths = [line.metadata_file for line in table.document.metadata_log()]
    known = [identity(path) for path in paths]
    if identity(base) not in known:
        return None
    before: RawDocument | None = None
    for path in paths[known.index(identity(base)) :]:
        document = _read(table, path)
        if document is None:
            return None
        if before is not None and not _has_any(document, snapshots):
            return before, document
        before = document
    return None if before is None else (before, table.document)


def _has_any(document: RawDocument, snapshots: set[int]) -> bool:
    return any(each.snapshot_id in snapshots for each in document.snapshots())


def _read(table: LoadedTable, path: str) -> RawDocument | None:
    try:
        return RawDocument.parse(path, read_file(table.stores, path), table.stores.limits)
    except LakesweepError:
        return None
