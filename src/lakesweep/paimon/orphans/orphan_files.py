"""Find files that no snapshot, tag or changelog of any branch references, in one process.

Stored files are listed before references are read, so a file that is committed in between is
seen to be referenced. Only files count that have names Paimon writes and that are too old to
belong to a commit in progress. `OrphanPlan.still_unused` reads new owners, and is called
right before each batch of deletes.
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
from lakesweep.hashing import HashSet
from lakesweep.marks.unreadable import ReadFailure
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.file_kinds import ORPHAN_KINDS, PaimonKind
from lakesweep.paimon.model.layout import JOURNAL_FOLDER
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.orphans.folders import ScannedFolder, scanned_folders
from lakesweep.paimon.orphans.used_names import UsedNames
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.datasets.spool import Spool, unique_files
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.listing.locations import list_files

#: This many files with unknown names are reported by name; the others are only counted.
MOST_UNKNOWN = 1_000
_LITTER = pa.array(sorted(ORPHAN_KINDS))


@dataclass
class UnrecognizedFiles:
    """Files with names that Paimon does not write. They are reported, and kept."""

    count: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, paths: pa.Array) -> None:
        self.count += len(paths)
        self.paths += paths[: MOST_UNKNOWN - len(self.paths)].to_pylist()


class OrphanPlan:
    """Every orphan of tables that are cleaned together, on disk. Finding them changes nothing."""

    def __init__(self, tables: Sequence[PaimonTable], cut: datetime) -> None:
        self.tables = tuple(tables)
        self.cut = cut
        self.unknown = UnrecognizedFiles()
        self.files: Counter[PaimonKind] = Counter()
        self.used: list[UsedNames] = []
        self.total_files = 0
        self.total_bytes = 0
        self._kept = HashSet()
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
        self._count(batch)
        self._orphans.add(batch)

    def spare(self, kept: HashSet) -> None:
        """Leave files out, by the hashes of their identities, and count the others again."""
        self._kept = kept
        self.files.clear()
        self.total_files = self.total_bytes = 0
        for batch in self.batches():
            self._count(batch)

    def _count(self, batch: pa.RecordBatch) -> None:
        count_kinds(self.files, batch)
        self.total_files += batch.num_rows
        self.total_bytes += pc.sum(batch["size_bytes"]).as_py() or 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All orphans."""
        for batch in self._orphans.batches():
            kept = self._kept.contains(file_hashes(batch["path"])) if len(self._kept) else None
            yield batch if kept is None else batch.filter(pa.array(~kept))

    def still_unused(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those of some orphans that nothing has started to use since they were found.

        Every owner that is new is read first. Any error means that this is not known.
        """
        _read_new_owners(self)
        return _unused(self, batch)


class OrphanOutcome:
    """The outcome of each orphan, on disk, and their totals."""

    def __init__(self) -> None:
        self.tally = OutcomeTotals()
        self.spared = 0
        self.folders = 0
        self.outcomes = Spool(OUTCOME_SCHEMA)

    def add(self, outcomes: pa.RecordBatch) -> None:
        self.tally.add(outcomes)
        self.outcomes.add(outcomes)


def plan_orphans(group: TableGroup, cut: datetime, *, progress: Progress = SILENT) -> OrphanPlan:
    """Find files that were last written before `cut` and that no table of the group uses.

    Any error means that it is not known what is stored or used; then there is no plan.
    """
    plan = OrphanPlan(group.tables, cut)
    try:
        with ExitStack() as stack:
            stored = [
                _list_into(stack.enter_context(Spool()), plan, place, progress)
                for place in scanned_folders(plan.tables)
            ]
            plan.used = [UsedNames(table, progress) for table in (*group.tables, *group.beside)]
            _read_new_owners(plan)
            for batch in _orphans(plan, stored):
                plan.add(batch)
    except MissingError as error:
        plan.close()
        raise UnreadableError(error.path, ReadFailure.MISSING, error.reason) from error
    except BaseException:
        plan.close()
        raise
    # No file that is used now is in the plan: from here on only new owners matter.
    for used in plan.used:
        used.forget()
    return plan


def count_kinds(counts: Counter[PaimonKind], files: pa.RecordBatch) -> None:
    """Count files (FILE_SCHEMA) by their kinds."""
    for row in pc.value_counts(files["kind"]).to_pylist():
        counts[PaimonKind(row["values"])] += row["counts"]


def _list_into(
    stored: Spool, plan: OrphanPlan, place: ScannedFolder, progress: Progress
) -> tuple[ScannedFolder, Spool]:
    """All files stored in a folder. An external root without any file yet may be missing."""
    others: dict[str, None] = {}
    table = plan.tables[0]
    with progress.task("listed") as task, suppress(MissingError):
        for batch in list_files(table.stores, place.path, workers=table.walk_workers):
            stored.add(batch)
            others |= dict.fromkeys(place.others_of(batch["path"]))
            task.advance(batch.num_rows)
    return replace(place, others=tuple(others)), stored


def _orphans(
    plan: OrphanPlan, stored: Sequence[tuple[ScannedFolder, Spool]]
) -> Iterator[pa.RecordBatch]:
    """All unused files that may be deleted, each once."""
    found = (
        _litter(plan, place, _unused(plan, batch))
        for place, spool in stored
        for batch in spool.batches()
    )
    # One folder may lie inside another.
    return unique_files(found) if len(stored) > 1 else found


def _litter(plan: OrphanPlan, place: ScannedFolder, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Those of some unused files that are orphans by their names and ages."""
    kinds = place.kinds_of(batch["path"])
    plan.unknown.add(_unrecognized(batch["path"], kinds, place.path))
    return _old_litter(batch, kinds, plan.cut)


def _unrecognized(paths: pa.Array, kinds: pa.Array, root: str) -> pa.Array:
    """The files without a kind, except our own journals and folder markers."""
    ours = pc.or_(pc.starts_with(paths, f"{root}{JOURNAL_FOLDER}/"), pc.ends_with(paths, "/"))
    return paths.filter(pc.and_(pc.is_null(kinds), pc.invert(ours)))


def _old_litter(batch: pa.RecordBatch, kinds: pa.Array, cut: datetime) -> pa.RecordBatch:
    """The files that may be orphans; a file of unknown age is not one."""
    is_old = pc.less(batch["modified"], pa.scalar(cut, batch["modified"].type))
    chosen = pc.and_(is_old.fill_null(False), pc.is_in(kinds, _LITTER))
    return batch.set_column(1, batch.schema.field("kind"), kinds).filter(chosen)


def _read_new_owners(plan: OrphanPlan) -> None:
    for used in plan.used:
        used.look()


def _unused(plan: OrphanPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    is_used = np.zeros(batch.num_rows, dtype=bool)
    for used in plan.used:
        is_used |= used.has(batch["path"])
    return batch.filter(pa.array(~is_used))
