"""Plan and apply an expiry: delete owners, then the files that only they held.

The plan holds every file that will be deleted, once, on disk and counted. It is applied in an
order that survives a crash at any point and never shows a reader half a snapshot:

1. write the journal, and have the store vouch for it;
2. write what outlives the owners and move the hints, so that readers start behind them; write
   down what the owners say;
3. delete the files of the owners, unless the table was rolled back to one of them;
4. wait until a tag or branch that was being created from one of them is written;
5. put back what a new consumer reads next, or what the table was rolled back to; read all owners
   again, and keep what they hold;
6. delete the files, those that name others last;
7. remove emptied folders, then the journal.

Before step 3 nothing is lost; after it the next run finishes what the journal says. If it finds
that the table was rolled back to an owner in that moment, it writes the owner again first.

Step 4 is needed because a tag is created in two steps, too: read the snapshot, write the tag.
If the snapshot is deleted in between, only the tag says that its files are still in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import FormatError, LakesweepError
from lakesweep.hashing import HashSet
from lakesweep.paimon.expire.candidates import Candidates
from lakesweep.paimon.expire.owner_copies import write_copies
from lakesweep.paimon.expire.settle_time import SETTLE, wait_by_store
from lakesweep.paimon.expire.snapshot_expiry import RemovedOwners
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.owned_folders import OwnedFolders
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.claims import OwnerClaim
from lakesweep.paimon.reach.owners import FileOwner, OwnerFile
from lakesweep.paimon.reach.retained_files import RetainedFiles
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets.spool import Spools
from lakesweep.storage.deleting.bulk_delete import Deleter, delete_files
from lakesweep.storage.deleting.journal import (
    FoundJournals,
    IgnoredJournal,
    Journal,
    JournaledTable,
    JournalLog,
    KnownJournal,
    abandoned_journals,
    find_journals,
    write_journal,
)
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.local.empty_folders import remove_empty_folders
from lakesweep.storage.object_store import StoreOpener
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter

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
#: Between two looks at the owners that stay, no more owners are deleted than one request takes.
_OWNERS_AT_ONCE = 50


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

    @property
    def removed(self) -> RemovedOwners | None:
        """What a rollback may need again; None if it needs none of the owners."""
        ...

    def may_leave(self) -> bool:
        """Whether the owners that stay are still there: false after a rollback.

        Asked right before each request that deletes owners.
        """
        ...

    def put_back(self, removed: Sequence[OwnerFile]) -> Sequence[OwnerFile]:
        """Write those removed owners again that are needed after all.

        By a consumer that came meanwhile, or by a rollback that had chosen one of them.
        """
        ...


class ExpiryPlan(Spools[PaimonKind, PaimonKind]):
    """Every file to delete, once, on disk, with counts by kind."""

    def __init__(
        self,
        table: PaimonTable,
        expiry: Expiry,
        protection: RetainedFiles,
        journals: FoundJournals,
    ) -> None:
        super().__init__(_ORDER)
        self.table = table
        self.expiry = expiry
        self.protection = protection
        self.journals = journals
        #: How many files stay because something else than the table needs them.
        self.protected = 0
        self._kept = HashSet()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to delete, and no journal to remove."""
        return not (self.total_files or self.journals.interrupted)

    @property
    def has_files(self) -> bool:
        """Whether anything besides the owners themselves is deleted."""
        return any(self.files[kind] for kind in _ORDER)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows of FILE_SCHEMA into the spools of their kinds."""
        for name in pc.unique(batch["kind"]).to_pylist():
            self.put(
                PaimonKind(name), PaimonKind(name), batch.filter(pc.equal(batch["kind"], name))
            )

    def batches(self, stage: PaimonKind) -> Iterator[pa.RecordBatch]:
        """The files of one kind that are to be deleted."""
        for batch in super().batches(stage):
            kept = self._kept.contains(file_hashes(batch["path"])) if len(self._kept) else None
            yield batch if kept is None else batch.filter(pa.array(~kept))

    def files_to_delete(self) -> Iterator[pa.RecordBatch]:
        """Every file but those of the owners, in the order of the deletes."""
        for kind in _ORDER:
            yield from self.batches(kind)

    def spare(self, kept: HashSet) -> None:
        """Leave files out, by the hashes of their identities, and count the others again."""
        self._kept, before = kept, self.total_files
        for kind in _ORDER:
            self.files[kind] = self.bytes[kind] = 0
            for batch in self.batches(kind):
                self.files[kind] += batch.num_rows
                self.bytes[kind] += pc.sum(batch["size_bytes"]).as_py() or 0
        self.protected += before - self.total_files

    def kept_owners(self, kept: HashSet) -> list[str]:
        """The files of owners that are among some files, by the hashes of their identities."""
        paths = pa.array([owner.file.path for owner in self.expiry.leaving], pa.string())
        return list(paths.filter(pa.array(kept.contains(file_hashes(paths)))).to_pylist())

    def owners(self) -> Iterator[pa.RecordBatch]:
        """The files of the owners themselves."""
        yield _owner_rows([owner.file for owner in self.expiry.leaving])

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Every file, in the order of the deletes."""
        yield from self.owners()
        yield from self.files_to_delete()

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

    def put_back(self, files: Sequence[OwnerFile]) -> None:
        """Owners that were deleted and exist again are not counted as deleted."""
        self.deleted.subtract(Counter(file.kind for file in files))


def plan_expiry(
    table: PaimonTable, expiry: Expiry, known: KnownJournal, *, progress: Progress = SILENT
) -> ExpiryPlan:
    """Plan what to delete with the owners, and what interrupted runs left behind.

    Nothing changes yet. On any error what other owners hold is unknown, so there is no plan.
    """
    with Candidates(OwnedFolders(table)) as candidates:
        with progress.task("found") as task:
            for batch in expiry.candidates():
                candidates.add(batch)
                task.advance(batch.num_rows)
        journals = _resumed(candidates, find_journals(journaled(table), known))
        protection = RetainedFiles(table, candidates.hashes, progress)
        protection.hold_planned(expiry.planned)
        protection.hold_owners(expiry.leaving)
        plan = ExpiryPlan(table, expiry, protection, journals)
        plan.count_owners()
        for batch in candidates.batches():
            plan.add(protection.spare(batch))
    return plan


def journaled(table: PaimonTable) -> JournaledTable:
    """The table as the place of its journals."""
    return JournaledTable(table.stores, table.address.path)


#: Makes a deleter that leaves what something else than the table needs.
Deletion = Callable[[Deleter], AbstractContextManager[Deleter]]


def apply_expiry(
    plan: ExpiryPlan,
    stores: StoreOpener,
    log: JournalLog,
    *,
    deletion: Deletion = nullcontext,
    limiter: DeleteLimiter | None = None,
    settle: timedelta = SETTLE,
    progress: Progress = SILENT,
) -> ExpiryOutcome:
    """Carry out a plan, by the only run over this table that `log` knows of.

    Files are deleted in `stores`, which may refuse that once the run has lost its lease. `deletion`
    is entered right before the first file is deleted.
    """
    outcome = ExpiryOutcome()
    # Before the owners go: afterwards nothing but the journal names the files that they held.
    written = list(_written(plan, log))
    removed = _prepared(plan, written, log)
    copies = list(_copied(plan, removed, log))
    # Readers find files through owners. With the owners gone first, no reader starts on a snapshot
    # whose files are about to go.
    gone = _remove_owners(plan.expiry, stores, removed, outcome)
    log.check()
    # A writer that read an owner just before may be creating a tag, branch or consumer of it. After
    # this long it is visible: its owner is put back, or its files are held.
    if plan.has_files:
        wait_by_store(plan.table, written[0].address, settle)
    outcome.put_back(plan.expiry.put_back(gone))
    # Before any file goes: a later run must not write an owner again whose files are gone.
    _forget(copies, log)
    # Read again after the wait: whatever appeared meanwhile keeps its files.
    plan.protection.hold_owners()
    with progress.task("deleted", total=plan.total_files) as task:
        folders = _Folders(plan.table)
        deleting = partial(delete_files, stores, workers=plan.table.threads, limiter=limiter)
        with deletion(deleting) as delete:
            for kind in _ORDER:
                free = _still_free(plan, log, folders.noting(kind, plan.batches(kind)))
                for result in delete(free):
                    outcome.add(kind, result)
                    task.advance(result.num_rows)
    log.check()
    outcome.folders = len(folders.remove())
    # With failures the journals stay, and the next run tries the same files again.
    if not outcome.tally.failed:
        _forget(
            [*plan.journals.interrupted, *abandoned_journals(journaled(plan.table), log), *written],
            log,
        )
    return outcome


def _resumed(candidates: Candidates, found: FoundJournals) -> FoundJournals:
    """Add the files of interrupted expiries; journals that turn out to be damaged are ignored."""
    interrupted, ignored = [], list(found.ignored)
    for journal in found.interrupted:
        try:
            for batch in journal.batches():
                candidates.add(batch)
            interrupted.append(journal)
        except FormatError as error:
            ignored.append(IgnoredJournal(journal.address, error.reason))
    return replace(found, interrupted=tuple(interrupted), ignored=tuple(ignored))


def _written(plan: ExpiryPlan, log: JournalLog) -> Iterator[Journal]:
    """Write the journal of a plan; none is needed if only owners are deleted."""
    if plan.has_files:
        yield write_journal(journaled(plan.table), log, plan.files_to_delete())


def _copied(plan: ExpiryPlan, files: Sequence[OwnerFile], log: JournalLog) -> Iterator[Journal]:
    """Write down what the owners say, for a run that finds this one killed."""
    removed = plan.expiry.removed
    if files and removed is not None:
        yield write_copies(plan.table, log, removed)


def _prepared(plan: ExpiryPlan, written: Iterable[Journal], log: JournalLog) -> Sequence[OwnerFile]:
    """The owners' files to delete now. If none may be deleted, the journal is removed."""
    try:
        return plan.expiry.prepare()
    except LakesweepError:
        _forget(written, log)
        raise


def _remove_owners(
    expiry: Expiry, stores: StoreOpener, files: Sequence[OwnerFile], outcome: ExpiryOutcome
) -> list[OwnerFile]:
    """Delete the owners' files, the oldest first, unless they have been replaced.

    A rollback makes an older owner the newest one. Then it and all after it stay: no more are
    deleted. Returns the files that may be gone.
    """
    gone: list[OwnerFile] = []
    for kind in _OWNER_KINDS:
        chosen = [file for file in files if file.kind is kind]
        for start in range(0, len(chosen), _OWNERS_AT_ONCE):
            if not expiry.may_leave():
                return gone
            some = chosen[start : start + _OWNERS_AT_ONCE]
            # Noted before the request: if its answer is lost, they may be gone.
            gone += some
            for result in delete_files(stores, [_owner_rows(some)], workers=1, verify=True):
                outcome.add(kind, result)
    return gone


def _still_free(
    plan: ExpiryPlan, log: JournalLog, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The files that no owner holds; owners are read again at intervals during the deletes."""
    seen = 0
    for batch in batches:
        if seen >= _FILES_BETWEEN_CHECKS:
            plan.protection.hold_owners()
            seen = 0
        seen += batch.num_rows
        log.check()
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


def _forget(journals: Iterable[Journal], log: JournalLog) -> None:
    """Remove finished journals.

    First the files, then the record: a folder without a record would look like one that someone
    planted.
    """
    for journal in journals:
        journal.remove()
        log.forget(journal.address)


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
