"""Plan and apply an expiry: delete owners, then the files that only they held.

The plan holds every file that will be deleted, once, on disk and counted. It is applied in an
order that survives a crash at any point and never shows a reader half a snapshot:

1. write the journal;
2. write what outlives the owners and move the hints, so that readers start behind them;
3. delete the files of the owners;
4. read all owners again, and keep what new or undeletable ones hold;
5. delete the files, those that name others last;
6. remove emptied folders, then the journal.

Before step 3 nothing is lost; after it the next run finishes what the journal says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError
from lakesweep.paimon.expire.candidates import Candidates
from lakesweep.paimon.expire.journal import Journal, find_journals, write_journal
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.claims import OwnerClaim
from lakesweep.paimon.reach.owners import FileOwner, OwnerFile
from lakesweep.paimon.reach.retained_files import RetainedFiles
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets.spool import Spools
from lakesweep.storage.deleting.bulk_delete import Deleter, delete_files
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.local.empty_folders import remove_empty_folders

#: The order of deletes by kind: files that name others come last.
_ORDER = (
    PaimonKind.DATA,
    PaimonKind.CHANGELOG,
    PaimonKind.EXTRA,
    PaimonKind.INDEX,
    PaimonKind.STATISTICS,
    PaimonKind.MANIFEST,
    PaimonKind.INDEX_MANIFEST,
    PaimonKind.MANIFEST_LIST,
)
_IN_BUCKETS = (PaimonKind.DATA, PaimonKind.CHANGELOG, PaimonKind.EXTRA, PaimonKind.INDEX)
_OWNER_KINDS = (PaimonKind.SNAPSHOT, PaimonKind.TAG, PaimonKind.CHANGELOG_META)
#: Owners are read again after this many files.
_FILES_BETWEEN_CHECKS = 50_000


class Expiry(Protocol):
    """Owners of one kind that are to expire."""

    @property
    def title(self) -> str:
        """What expires, for the journal."""
        ...

    @property
    def leaving(self) -> Sequence[FileOwner]:
        """The owners that expire."""
        ...

    @property
    def planned(self) -> Sequence[OwnerClaim]:
        """The claims of what will be written to outlive them."""
        ...

    def candidates(self) -> Iterator[pa.RecordBatch]:
        """The files that may be deleted with them (FILE_SCHEMA), some of them more than once."""
        ...

    def prepare(self) -> Sequence[OwnerFile]:
        """Check again that they may expire, write what outlives them, and move the hints.

        Returns the files to delete now; ChangedError if one of them may no longer be deleted.
        """
        ...


class ExpiryPlan(Spools[PaimonKind, PaimonKind]):
    """Every file to delete, once, on disk, with counts by kind."""

    def __init__(self, table: PaimonTable, expiry: Expiry, protection: RetainedFiles) -> None:
        super().__init__(_ORDER)
        self.table = table
        self.expiry = expiry
        self.protection = protection
        self.unfinished: list[Journal] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows of FILE_SCHEMA into the spools of their kinds."""
        for name in pc.unique(batch["kind"]).to_pylist():
            self.put(
                PaimonKind(name), PaimonKind(name), batch.filter(pc.equal(batch["kind"], name))
            )

    def owners(self) -> Iterator[pa.RecordBatch]:
        """The files of the owners themselves."""
        yield _owner_rows([owner.file for owner in self.expiry.leaving])

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Every file, in the order of the deletes."""
        yield from self.owners()
        for kind in _ORDER:
            yield from self.batches(kind)

    def count_owners(self) -> None:
        """Add the owners' own files to the counts."""
        for owner in self.expiry.leaving:
            self.files[owner.kind] += 1
            self.bytes[owner.kind] += owner.file.info.size_bytes


@dataclass
class ExpiryOutcome:
    """How an expiry ended."""

    tally: OutcomeTotals = field(default_factory=OutcomeTotals)
    deleted: Counter[PaimonKind] = field(default_factory=Counter)
    folders: int = 0

    def add(self, kind: PaimonKind, outcome: pa.RecordBatch) -> None:
        """Count the outcomes of files of one kind."""
        before = self.tally.deleted
        self.tally.add(outcome)
        gone = self.tally.deleted - before
        if gone:
            self.deleted[kind] += gone


def plan_expiry(table: PaimonTable, expiry: Expiry, *, progress: Progress = SILENT) -> ExpiryPlan:
    """Plan what to delete with the owners, and what interrupted runs left behind.

    Nothing changes yet. On any error what other owners hold is unknown, so there is no plan.
    """
    with Candidates() as candidates:
        unfinished = [each for each in find_journals(table) if each.is_ours]
        with progress.task("found") as task:
            for batch in _may_go(expiry, unfinished):
                candidates.add(batch)
                task.advance(batch.num_rows)
        protection = RetainedFiles(table, candidates.hashes, progress)
        protection.hold_planned(expiry.planned)
        protection.hold_owners(expiry.leaving)
        plan = ExpiryPlan(table, expiry, protection)
        plan.unfinished = unfinished
        plan.count_owners()
        for batch in candidates.batches():
            plan.add(protection.spare(batch))
    return plan


def apply_expiry(
    plan: ExpiryPlan, delete: Deleter, *, progress: Progress = SILENT
) -> ExpiryOutcome:
    """Carry out a plan; `delete` deletes the files that the owners held."""
    outcome = ExpiryOutcome()
    written = list(_written(plan))
    _remove_owners(plan, _prepared(plan, written), outcome)
    plan.protection.hold_owners()
    with progress.task("deleted", total=plan.total_files) as task:
        folders = _Folders(plan.table)
        for kind in _ORDER:
            for result in delete(_still_free(plan, folders.noting(kind, plan.batches(kind)))):
                outcome.add(kind, result)
                task.advance(result.num_rows)
    outcome.folders = len(folders.remove())
    if not outcome.tally.failed:
        _forget(plan, [*plan.unfinished, *written])
    return outcome


def _may_go(expiry: Expiry, unfinished: Iterable[Journal]) -> Iterator[pa.RecordBatch]:
    yield from expiry.candidates()
    for journal in unfinished:
        yield from journal.batches()


def _written(plan: ExpiryPlan) -> Iterator[Journal]:
    """Write the journal of a plan; none is needed if only owners are deleted."""
    if any(plan.files[kind] for kind in _ORDER):
        batches = (batch for kind in _ORDER for batch in plan.batches(kind))
        now = plan.table.clock.now()
        yield write_journal(plan.table, plan.expiry.title, batches, now)


def _prepared(plan: ExpiryPlan, written: Iterable[Journal]) -> Sequence[OwnerFile]:
    """The owners' files to delete now. If none may be deleted, the journal is removed."""
    try:
        return plan.expiry.prepare()
    except LakesweepError:
        for journal in written:
            journal.remove()
        raise


def _remove_owners(plan: ExpiryPlan, files: Sequence[OwnerFile], outcome: ExpiryOutcome) -> None:
    """Delete the owners' files, unless they have been replaced."""
    for kind in _OWNER_KINDS:
        rows = _owner_rows([file for file in files if file.kind is kind])
        for result in delete_files(plan.table.stores, [rows], workers=1, verify=True):
            outcome.add(kind, result)


def _still_free(plan: ExpiryPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The files that no owner holds; owners are read again at intervals during the deletes."""
    seen = 0
    for batch in batches:
        if seen >= _FILES_BETWEEN_CHECKS:
            plan.protection.hold_owners()
            seen = 0
        seen += batch.num_rows
        yield plan.protection.spare(batch)


class _Folders:
    """The buckets of deleted files, to be removed if they are empty."""

    def __init__(self, table: PaimonTable) -> None:
        self._root = table.layout.data_folder
        self._seen: set[str] = set()

    def noting(
        self, kind: PaimonKind, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The same batches, once their buckets are noted."""
        for batch in batches:
            if kind in _IN_BUCKETS:
                self._seen.update(_buckets(batch["path"]))
            yield batch

    def remove(self) -> list[str]:
        return remove_empty_folders(self._seen, self._root)


def _buckets(paths: pa.Array) -> Iterator[str]:
    folders = pc.replace_substring_regex(paths, "[^/]*$", "")
    buckets = pc.unique(folders.filter(pc.match_substring_regex(folders, "/bucket-[^/]*/$")))
    yield from buckets.to_pylist()


def _forget(plan: ExpiryPlan, journals: Iterable[Journal]) -> None:
    """Remove finished journals.

    A recent journal may name files that an owner still holds, and that the run that wrote it is
    about to free. Such a journal stays.
    """
    now = plan.table.clock.now()
    for journal in journals:
        if journal not in plan.unfinished or journal.is_old(now) or _is_done(plan, journal):
            journal.remove()


def _is_done(plan: ExpiryPlan, journal: Journal) -> bool:
    """Whether a journal is complete, and no owner holds any file that it names."""
    return journal.is_committed and all(
        plan.protection.spare(batch).num_rows == batch.num_rows for batch in journal.batches()
    )


def _owner_rows(files: Sequence[OwnerFile]) -> pa.RecordBatch:
    rows = [
        {
            "path": file.path,
            "kind": file.kind.value,
            "size_bytes": file.info.size_bytes,
            "modified": file.info.modified,
            "etag": file.info.etag,
        }
        for file in files
    ]
    return pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA)
