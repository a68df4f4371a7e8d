"""Find and delete files that no snapshot, tag or changelog of any branch references.

Stored files are listed before references are read, so that a file committed in between is
seen to be referenced. Only files count whose names Paimon writes and that are too old to
belong to a commit under way. Owners are checked again before each batch of deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, UnreadableError
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.file_names import ORPHAN_KINDS
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.orphans.folders import (
    ScannedFolder,
    bucket_folders,
    remove_empty,
    scanned_folders,
)
from lakesweep.paimon.orphans.used_names import UsedNames
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets.spool import Spool
from lakesweep.storage.datasets.unique_files import unique_files
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.listing.locations import list_files

#: So many files of unknown names are told by name; of the others only the number.
MOST_UNKNOWN = 1_000
_LITTER = pa.array(sorted(ORPHAN_KINDS))


@dataclass
class UnrecognizedFiles:
    """Files of names that Paimon does not write. They are told, and stay."""

    count: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, paths: pa.Array) -> None:
        self.count += len(paths)
        self.paths += paths[: MOST_UNKNOWN - len(self.paths)].to_pylist()


class OrphanPlan:
    """Every orphan of tables that are cleaned together, on disk. Nothing is changed by it."""

    def __init__(self, tables: Sequence[PaimonTable], cut: datetime) -> None:
        self.tables = tuple(tables)
        self.cut = cut
        self.unknown = UnrecognizedFiles()
        self.files: Counter[PaimonKind] = Counter()
        self.used: list[UsedNames] = []
        self._orphans = Spool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the plan from disk."""
        self._orphans.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add orphans, as rows of FILE_SCHEMA."""
        count_kinds(self.files, batch)
        self._orphans.add(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All orphans."""
        return self._orphans.batches()

    @property
    def total_files(self) -> int:
        return self._orphans.files

    @property
    def total_bytes(self) -> int:
        return self._orphans.size_bytes


class OrphanOutcome:
    """What became of orphans, each by its path, on disk."""

    def __init__(self) -> None:
        self.tally = OutcomeTotals()
        self.spared = 0
        self.folders = 0
        self.outcomes = Spool(OUTCOME_SCHEMA)

    def add(self, outcomes: pa.RecordBatch) -> None:
        self.tally.add(outcomes)
        self.outcomes.add(outcomes)


def plan_orphans(group: TableGroup, cut: datetime, *, progress: Progress = SILENT) -> OrphanPlan:
    """Find what was last written before `cut` and is used by no table of the group.

    Any error means that what is stored or used is not known; then there is no plan.
    """
    plan = OrphanPlan(group.tables, cut)
    try:
        with ExitStack() as stack:
            stored = [
                _list_into(stack.enter_context(Spool()), plan, place, progress)
                for place in scanned_folders(plan.tables)
            ]
            plan.used = [UsedNames(table, progress) for table in (*group.tables, *group.beside)]
            _look(plan)
            for batch in _orphans(plan, stored):
                plan.add(batch)
    except MissingError as error:
        plan.close()
        raise UnreadableError(error.path, ReadFailure.MISSING, error.reason) from error
    except BaseException:
        plan.close()
        raise
    # What is used by now is not in the plan: from here on only what comes matters.
    for used in plan.used:
        used.forget()
    return plan


def remove_orphans(
    plan: OrphanPlan, delete: Deleter, outcome: OrphanOutcome, *, progress: Progress = SILENT
) -> None:
    """Delete what still nobody uses, and then the buckets and partitions that are empty."""
    folders: set[str] = set()
    with progress.task("deleted", total=plan.total_files) as task:
        for result in delete(_still_unused(plan, outcome, folders)):
            outcome.add(result)
            task.advance(result.num_rows)
    outcome.folders += remove_empty(plan.tables, folders, plan.cut)


def count_kinds(counts: Counter[PaimonKind], files: pa.RecordBatch) -> None:
    """Count files (FILE_SCHEMA) by their kinds."""
    for row in pc.value_counts(files["kind"]).to_pylist():
        counts[PaimonKind(row["values"])] += row["counts"]


def _list_into(
    stored: Spool, plan: OrphanPlan, place: ScannedFolder, progress: Progress
) -> tuple[ScannedFolder, Spool]:
    """All that is stored at a place; a root that no file was written to yet need not be there."""
    others: dict[str, None] = {}
    with progress.task("listed") as task, suppress(MissingError):
        for batch in list_files(plan.tables[0].stores, place.path):
            stored.add(batch)
            others |= dict.fromkeys(place.others_of(batch["path"]))
            task.advance(batch.num_rows)
    return replace(place, others=tuple(others)), stored


def _orphans(
    plan: OrphanPlan, stored: Sequence[tuple[ScannedFolder, Spool]]
) -> Iterator[pa.RecordBatch]:
    """What nobody uses, each file once."""
    found = (
        _litter(plan, place, _unused(plan, batch))
        for place, spool in stored
        for batch in spool.batches()
    )
    # Of several places one may lie inside another.
    return unique_files(found) if len(stored) > 1 else found


def _litter(plan: OrphanPlan, place: ScannedFolder, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of what nobody uses, what its name and its age prove to be an orphan."""
    kinds = place.kinds_of(batch["path"])
    plan.unknown.add(_strange(batch["path"], kinds, place.path))
    return _old_litter(batch, kinds, plan.cut)


def _strange(paths: pa.Array, kinds: pa.Array, root: str) -> pa.Array:
    """The files that no name fits; our own journals and the marks of folders are none."""
    ours = pc.or_(pc.starts_with(paths, f"{root}{JOURNAL_FOLDER}/"), pc.ends_with(paths, "/"))
    return paths.filter(pc.and_(pc.is_null(kinds), pc.invert(ours)))


def _old_litter(batch: pa.RecordBatch, kinds: pa.Array, cut: datetime) -> pa.RecordBatch:
    """What may be an orphan; a file whose age is not known is none."""
    is_old = pc.less(batch["modified"], pa.scalar(cut, batch["modified"].type))
    chosen = pc.and_(is_old.fill_null(False), pc.is_in(kinds, _LITTER))
    return batch.set_column(1, batch.schema.field("kind"), kinds).filter(chosen)


def _look(plan: OrphanPlan) -> None:
    for used in plan.used:
        used.look()


def _unused(plan: OrphanPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    is_used = np.zeros(batch.num_rows, dtype=bool)
    for used in plan.used:
        is_used |= used.has(batch["path"])
    return batch.filter(pa.array(~is_used))


def _still_unused(
    plan: OrphanPlan, outcome: OrphanOutcome, folders: set[str]
) -> Iterator[pa.RecordBatch]:
    """Each batch without what came to be used meanwhile: owners are looked at before each."""
    for batch in plan.batches():
        _look(plan)
        unused = _unused(plan, batch)
        outcome.spared += batch.num_rows - unused.num_rows
        folders.update(bucket_folders(unused))
        yield unused
