"""Files that no snapshot, tag or changelog of any branch names.

What is stored is listed first, and then what is used: a file that is committed in between is seen
to be used. Of the rest only names count that Paimon writes, and only files that are old enough not
to be part of a commit that is under way. While files go, owners are looked at again and again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, UnreadableError
from lakesweep.paimon.completeness import Used
from lakesweep.paimon.empty_folders import old_empty_folders
from lakesweep.paimon.external import Group, external_roots
from lakesweep.paimon.journal import FOLDER
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.layout import Layout
from lakesweep.paimon.names import LITTER, kinds_of_external_files, kinds_of_files
from lakesweep.paimon.table import PaimonTable
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.deleting import Deleter
from lakesweep.storage.files import OUTCOME_SCHEMA
from lakesweep.storage.listing import list_files
from lakesweep.storage.local.emptying import remove_empty_folders
from lakesweep.storage.outcome import Tally
from lakesweep.storage.spool import Spool
from lakesweep.storage.tolerance import State
from lakesweep.storage.unique import unique_files

#: So many files of unknown names are told by name; of the others only the number.
MOST_UNKNOWN = 1_000
_LITTER = pa.array(sorted(LITTER))
_SCHEMA = "/schema/schema-"
_BRANCH = re.compile("branch/branch-[^/]+/")
_IN_BUCKETS = pa.array([Kind.DATA, Kind.CHANGELOG, Kind.EXTRA, Kind.INDEX, Kind.TEMPORARY])


@dataclass
class Unknown:
    """Files of names that Paimon does not write. They are told, and stay."""

    count: int = 0
    paths: list[str] = field(default_factory=list)

    def add(self, paths: pa.Array) -> None:
        self.count += len(paths)
        self.paths += paths[: MOST_UNKNOWN - len(self.paths)].to_pylist()


@dataclass(frozen=True)
class _Place:
    """A folder that holds files of a table, and how their kinds are told from their names."""

    path: str
    #: Where partitions and buckets lie. This folder stays, whether or not it is empty.
    data_folder: str
    kinds: Callable[[Layout, pa.Array], pa.Array]
    layouts: tuple[Layout, ...]
    #: Folders in it that are tables themselves, and look like partitions of this one.
    others: tuple[str, ...] = ()

    def kinds_of(self, paths: pa.Array) -> pa.Array:
        names = pc.utf8_slice_codeunits(paths, len(self.path))
        kinds = pc.coalesce(*(self.kinds(layout, names) for layout in self.layouts))
        for folder in self.others:
            kinds = pc.if_else(pc.starts_with(paths, folder), pa.scalar(None, pa.string()), kinds)
        return kinds

    def others_of(self, paths: pa.Array) -> Iterator[str]:
        """The folders of other tables, of whose files nothing is known, by their schemas."""
        for path in paths.filter(pc.match_substring(paths, _SCHEMA)).to_pylist():
            inside = path.removeprefix(self.path).partition(_SCHEMA.lstrip("/"))[0]
            if inside and not _BRANCH.fullmatch(inside):
                yield self.path + inside


class OrphanPlan:
    """Every orphan of tables that are cleaned together, on disk. Nothing is changed by it."""

    def __init__(self, tables: Sequence[PaimonTable], cut: datetime) -> None:
        self.tables = tuple(tables)
        self.cut = cut
        self.unknown = Unknown()
        self.files: Counter[Kind] = Counter()
        self.used: list[Used] = []
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
        self.tally = Tally()
        self.spared = 0
        self.folders = 0
        self.outcomes = Spool(OUTCOME_SCHEMA)

    def add(self, outcomes: pa.RecordBatch) -> None:
        self.tally.add(outcomes)
        self.outcomes.add(outcomes)


def plan_orphans(group: Group, cut: datetime, *, progress: Progress = SILENT) -> OrphanPlan:
    """Find what was last written before `cut` and is used by no table of the group.

    Any error means that what is stored or used is not known; then there is no plan.
    """
    plan = OrphanPlan(group.tables, cut)
    try:
        with ExitStack() as stack:
            stored = [
                _list_into(stack.enter_context(Spool()), plan, place, progress)
                for place in _places(plan.tables)
            ]
            plan.used = [Used(table, progress) for table in (*group.tables, *group.beside)]
            _look(plan)
            for batch in _orphans(plan, stored):
                plan.add(batch)
    except MissingError as error:
        plan.close()
        raise UnreadableError(error.path, State.MISSING, error.reason) from error
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


def remove_empty(tables: Sequence[PaimonTable], folders: set[str], cut: datetime) -> int:
    """Remove folders that are empty by now, and those that were before `cut`; how many went."""
    for table in tables:
        folders.update(old_empty_folders(table.layout, cut))
    places = _places(tables)
    return sum(len(remove_empty_folders(folders, place.data_folder)) for place in places)


def count_kinds(counts: Counter[Kind], files: pa.RecordBatch) -> None:
    """Count files (FILE_SCHEMA) by their kinds."""
    for row in pc.value_counts(files["kind"]).to_pylist():
        counts[Kind(row["values"])] += row["counts"]


def _list_into(
    stored: Spool, plan: OrphanPlan, place: _Place, progress: Progress
) -> tuple[_Place, Spool]:
    """All that is stored at a place; a root that no file was written to yet need not be there."""
    others: dict[str, None] = {}
    with progress.task("listed") as task, suppress(MissingError):
        for batch in list_files(plan.tables[0].stores, place.path):
            stored.add(batch)
            others |= dict.fromkeys(place.others_of(batch["path"]))
            task.advance(batch.num_rows)
    return replace(place, others=tuple(others)), stored


def _orphans(plan: OrphanPlan, stored: Sequence[tuple[_Place, Spool]]) -> Iterator[pa.RecordBatch]:
    """What nobody uses, each file once."""
    found = (
        _litter(plan, place, _unused(plan, batch))
        for place, spool in stored
        for batch in spool.batches()
    )
    # Of several places one may lie inside another.
    return unique_files(found) if len(stored) > 1 else found


def _litter(plan: OrphanPlan, place: _Place, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Of what nobody uses, what its name and its age prove to be an orphan."""
    kinds = place.kinds_of(batch["path"])
    plan.unknown.add(_strange(batch["path"], kinds, place.path))
    return _old_litter(batch, kinds, plan.cut)


def _places(tables: Sequence[PaimonTable]) -> Iterator[_Place]:
    roots: dict[str, list[Layout]] = {}
    for table in tables:
        layouts = _naming(branch.layout for branch in table.branches())
        yield _Place(table.address.path, table.layout.data_folder, kinds_of_files, layouts)
        for root in external_roots(table):
            roots.setdefault(root, []).extend(layouts)
    for root, found in roots.items():
        yield _Place(root, root, kinds_of_external_files, _naming(found))


def _naming(layouts: Iterable[Layout]) -> tuple[Layout, ...]:
    """One layout of all that name files alike."""
    return tuple({_names_of(layout): layout for layout in layouts}.values())


def _names_of(layout: Layout) -> Hashable:
    inner = layout.data_folder.removeprefix(layout.root)
    prefixes = (layout.options.text(f"{kind}-file.prefix") for kind in ("data", "changelog"))
    return inner, layout.partitioning.names, *prefixes


def _strange(paths: pa.Array, kinds: pa.Array, root: str) -> pa.Array:
    """The files that no name fits; our own journals and the marks of folders are none."""
    ours = pc.or_(pc.starts_with(paths, f"{root}{FOLDER}/"), pc.ends_with(paths, "/"))
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


def bucket_folders(batch: pa.RecordBatch) -> list[str]:
    """The buckets that files (FILE_SCHEMA) lie in."""
    inside = batch.filter(pc.is_in(batch["kind"], _IN_BUCKETS))
    folders = pc.unique(pc.replace_substring_regex(inside["path"], "[^/]*$", ""))
    return list(folders.filter(pc.match_substring_regex(folders, "/bucket-[^/]+/")).to_pylist())
