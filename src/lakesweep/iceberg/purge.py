"""Delete a table or view with every file it reaches.

A purge is planned first: every file once, written to disk by stage, counted. Then it is
carried out stage by stage, children before parents and the current metadata last. If a stage
does not delete all its files, the stages of their parents are kept, so the purge can be
repeated from the metadata that is still there. Metadata files that only the logs of older
metadata name are purged too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import NotFoundError
from lakesweep.hashing import HashSet
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import TableMetadata, guess_location, load_metadata
from lakesweep.marks.unreadable import (
    READ_ERRORS,
    Problem,
    ReadFailure,
    Tolerance,
    Tolerant,
    problem_of,
)
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import folder_identity, identities, identity, parse
from lakesweep.storage.datasets.spool import Spools, unique_files
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.file_batches import FILE_SCHEMA, file_batch
from lakesweep.storage.file_identity import file_hashes, resolve_alias, resolve_aliases
from lakesweep.storage.listing.locations import list_files

if TYPE_CHECKING:
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores


class PurgeStage(IntEnum):
    """The order of deletion. Each stage waits for the one before."""

    CONTENT = 0
    MANIFESTS = 1
    MANIFEST_LISTS = 2
    LEAVES = 3
    LOG = 4
    HINT = 5
    METADATA = 6


#: A listed file of no known kind need not wait.
_STAGES: dict[str | None, PurgeStage] = {
    None: PurgeStage.CONTENT,
    IcebergKind.DATA: PurgeStage.CONTENT,
    IcebergKind.POSITION_DELETE: PurgeStage.CONTENT,
    IcebergKind.EQUALITY_DELETE: PurgeStage.CONTENT,
    IcebergKind.DELETION_VECTOR: PurgeStage.CONTENT,
    IcebergKind.MANIFEST: PurgeStage.MANIFESTS,
    IcebergKind.MANIFEST_LIST: PurgeStage.MANIFEST_LISTS,
    IcebergKind.STATISTICS: PurgeStage.LEAVES,
    IcebergKind.PARTITION_STATISTICS: PurgeStage.LEAVES,
    IcebergKind.METADATA_LOG: PurgeStage.LOG,
    IcebergKind.VERSION_HINT: PurgeStage.HINT,
    IcebergKind.METADATA: PurgeStage.METADATA,
    IcebergKind.VIEW_METADATA: PurgeStage.METADATA,
}

#: Listed files of no known kind, in counts.
_STORED = "stored"

#: The stages that must be kept while something of a stage is left.
_PARENTS = {
    PurgeStage.CONTENT: (
        PurgeStage.MANIFESTS,
        PurgeStage.MANIFEST_LISTS,
        PurgeStage.HINT,
        PurgeStage.METADATA,
    ),
    PurgeStage.MANIFESTS: (PurgeStage.MANIFEST_LISTS, PurgeStage.HINT, PurgeStage.METADATA),
    PurgeStage.MANIFEST_LISTS: (PurgeStage.HINT, PurgeStage.METADATA),
    PurgeStage.LEAVES: (PurgeStage.HINT, PurgeStage.METADATA),
    PurgeStage.LOG: (PurgeStage.HINT, PurgeStage.METADATA),
    PurgeStage.HINT: (),
    PurgeStage.METADATA: (),
}


class PurgePlan(Spools[PurgeStage, str]):
    """Every file of a purge, once, on disk, with the counts made while writing it.

    `outside` counts the files outside the folders of the table, `protected` those that stay because
    something else needs them.
    """

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(PurgeStage)
        self.metadata = metadata
        self.outside = 0
        self.protected = 0
        self.problems: list[Problem] = []
        self._kept = HashSet()

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch of distinct files into the stages of their kinds."""
        own = is_below(batch["path"], folders_of(self.metadata))
        self.outside += batch.num_rows - (pc.sum(own).as_py() or 0)
        for kind, rows in _by_kind(batch):
            self.put(_STAGES[kind], kind or _STORED, rows)

    def every(self) -> Iterator[pa.RecordBatch]:
        """All files of all stages."""
        return (batch for stage in PurgeStage for batch in self.batches(stage))

    def spare(self, kept: HashSet) -> None:
        """Leave files out, by the hashes of their identities, and count the others again."""
        self._kept = kept
        before = self.total_files
        self.files.clear()
        self.bytes.clear()
        for batch in self.every():
            for kind, rows in _by_kind(batch):
                self.files[kind or _STORED] += rows.num_rows
                self.bytes[kind or _STORED] += pc.sum(rows["size_bytes"]).as_py() or 0
        self.protected += before - self.total_files

    def batches(self, stage: PurgeStage) -> Iterator[pa.RecordBatch]:
        """The files of one stage that are to be deleted."""
        for batch in super().batches(stage):
            kept = pa.array(self._kept.contains(file_hashes(batch["path"])))
            yield batch.filter(pc.invert(kept))


def plan_purge(stores: Stores, metadata: Metadata, *, progress: Progress = SILENT) -> PurgePlan:
    """Plan to delete all that the metadata reaches, and metadata that only older logs name."""
    tolerant = Tolerant()
    reached = reached_files(stores, metadata, tolerant)
    plan = _write(metadata, _with_older(stores, metadata, reached, tolerant), progress)
    plan.problems = tolerant.problems
    return plan


def plan_base_location(
    stores: Stores, metadata: Metadata, *, progress: Progress = SILENT
) -> PurgePlan:
    """Plan to delete everything stored below the location of the table or view."""
    own = identity(metadata.path)
    location = metadata.location if metadata.location.endswith("/") else metadata.location + "/"

    def listed() -> Iterator[pa.RecordBatch]:
        for batch in list_files(stores, location):
            is_own = pc.equal(identities(batch["path"]), own)
            kind = pc.if_else(is_own, IcebergKind.METADATA.value, pa.scalar(None, pa.string()))
            yield batch.set_column(1, FILE_SCHEMA.field("kind"), kind)

    return _write(metadata, listed(), progress)


def execute_purge(
    plan: PurgePlan,
    delete: Deleter,
    tally: OutcomeTotals | None = None,
    *,
    progress: Progress = SILENT,
) -> OutcomeTotals:
    """Execute a plan. Failures are counted; parents of what is left are kept.

    `tally` is complete as far as the purge came, also if it is interrupted.
    """
    tally = tally_problems(plan) if tally is None else tally
    kept: set[PurgeStage] = set()
    unreadable = _unreadable(plan.problems)
    if unreadable:
        kept.update(_PARENTS[PurgeStage.MANIFESTS])
    with progress.task("deleted", total=plan.total_files) as task:
        for stage in PurgeStage:
            if stage in kept:
                continue
            failed_before = tally.failed
            for outcome in delete(_without(plan.batches(stage), unreadable)):
                tally.add(outcome)
                task.advance(outcome.num_rows)
            if tally.failed > failed_before:
                kept.update(_PARENTS[stage])
    return tally


def tally_problems(plan: PurgePlan) -> OutcomeTotals:
    """The failures that are known before anything is deleted."""
    tally = OutcomeTotals()
    for problem in plan.problems:
        tally.fail(problem.path, f"{problem.state}: {problem.reason}")
    return tally


def _write(metadata: Metadata, batches: Iterable[pa.RecordBatch], progress: Progress) -> PurgePlan:
    plan = PurgePlan(metadata)
    with progress.task("found") as task:
        for batch in unique_files(_own_last(batches, metadata)):
            task.advance(batch.num_rows)
            plan.add(batch)
    return plan


def _by_kind(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    for kind in pc.unique(batch["kind"]).to_pylist():
        yield kind, batch.filter(pc.is_in(batch["kind"], pa.array([kind], pa.string())))


def _own_last(batches: Iterable[pa.RecordBatch], metadata: Metadata) -> Iterator[pa.RecordBatch]:
    """Delete the current metadata last, under whatever other kind the table names it."""
    own = identity(metadata.path)
    last = pa.array([IcebergKind.METADATA, IcebergKind.VIEW_METADATA], pa.string())
    for batch in batches:
        is_own = pc.equal(identities(batch["path"]), own)
        yield batch.filter(pc.or_(pc.invert(is_own), pc.is_in(batch["kind"], last)))


def _with_older(
    stores: Stores,
    metadata: Metadata,
    reached: Iterable[pa.RecordBatch],
    tolerance: Tolerance,
) -> Iterator[pa.RecordBatch]:
    if isinstance(metadata, TableMetadata):
        # Oldest first: only the log of a newer one names it.
        older = ((path, None) for path in older_metadata(stores, metadata, tolerance))
        yield file_batch(IcebergKind.METADATA_LOG, older)
    yield from reached


def _unreadable(problems: Iterable[Problem]) -> set[str]:
    """Files that exist but could not be read: what they name may still exist too."""
    there = (problem for problem in problems if problem.state is not ReadFailure.MISSING)
    return {identity(problem.path) for problem in there}


def _without(batches: Iterable[pa.RecordBatch], files: set[str]) -> Iterator[pa.RecordBatch]:
    """All but the files of these identities, however they are spelled."""
    excluded = pa.array(sorted(files), pa.string())
    for batch in batches:
        yield batch.filter(pc.invert(pc.is_in(identities(batch["path"]), excluded)))


def folders_of(metadata: Metadata) -> tuple[str, ...]:
    """The folders that belong to a table or view: its location, and its write paths."""
    return (metadata.location, *metadata.write_paths)


def own_location(metadata: Metadata) -> str | None:
    """The folder that a table or view certainly owns; None if there is none.

    Metadata may claim any location. It owns no more than the folder in which it lies itself by the
    usual layout, whatever it claims, and no folder in which it does not lie.
    """
    around = guess_location(metadata.path)
    claimed, lies = real_folder(metadata.location), real_folder(around)
    if parse(around).folder == "" or not real_folder(metadata.path).startswith(claimed):
        return None
    return metadata.location if claimed.startswith(lies) else around


def is_below(paths: pa.Array, folders: Iterable[str]) -> pa.Array:
    """Which paths are in or below one of some folders, or are named like one."""
    names = resolve_aliases(identities(paths))
    found = pa.repeat(pa.scalar(False), len(names))
    for folder in map(real_folder, folders):
        below = pc.or_(pc.starts_with(names, folder), pc.equal(names, folder[:-1]))
        found = pc.or_(found, below)
    return found


def real_folder(path: str) -> str:
    """The form in which folders are compared: local links are resolved."""
    return resolve_alias(folder_identity(path))


def older_metadata(stores: Stores, table: TableMetadata, tolerance: Tolerance) -> list[str]:
    """Metadata files, oldest first, that are not in the table's own log.

    A log is cut at its old end, so the oldest file of a log that can still be read names the
    longest part of the history before it. Files that a writer deleted on commit are expected and
    skipped. The log of a file that belongs to another table, as after a registration, is not
    followed.
    """
    known = {identity(path) for path in (table.path, *table.log)}
    found: list[str] = []
    log = table.log
    while log:
        unknown = []
        for path in _first_readable_log(stores, log, table.uuid, tolerance):
            if identity(path) not in known:
                known.add(identity(path))
                unknown.append(path)
        found = unknown + found
        log = tuple(unknown)
    return found


def _first_readable_log(
    stores: Stores, log: tuple[str, ...], uuid: str | None, tolerance: Tolerance
) -> tuple[str, ...]:
    for path in log:
        try:
            older = load_metadata(stores, path)
        except NotFoundError:
            continue
        except READ_ERRORS as error:
            tolerance.meet(problem_of(error))
            continue
        return older.log if isinstance(older, TableMetadata) and older.uuid == uuid else ()
    return ()
