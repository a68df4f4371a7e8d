"""Which of some files does any root reference? Every delete outside an apply asks this way.

The files are written down before the first root is read, so that a file which a table takes up
meanwhile is seen as referenced. Roots are read as a sweep reads them: newer metadata beside a
named file is followed, tables of all formats are marked, and the judge decides. If any root
cannot be read, the answer is an error, never "unreferenced".

A table that is purged must not keep its own files, so all roots but this one are asked.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.clock import Clock
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.marks.columns import RootFacts
from lakesweep.paimon.model.external_paths import overlaps, real_folder
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.progress import SILENT, Progress
from lakesweep.runs.records import RootMemory
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.address import folder_identity, identity, parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.file_batches import FIRST_TIME, OUTCOME_SCHEMA, coalesce_batches
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.object_store import Outcome
from lakesweep.sweep.apply.deletion import BATCH_ROWS
from lakesweep.sweep.apply.root_watch import (
    WATCH_SECONDS,
    RootWatch,
    may_have_moved,
    watch_roots,
)
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.engine.local_engine import load_hashes
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from lakesweep.sweep.judge.dangling_search import DanglingSearch
from lakesweep.sweep.judge.live_set import JudgeStep
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.judge.rules import LakeRules, make_rules
from lakesweep.sweep.judge.unlisted_tables import SurveyedFolders
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.root_identity import has_superseded
from lakesweep.sweep.mark.survey import LakeSurvey
from lakesweep.sweep.paths.file_names import FormatFamily
from lakesweep.sweep.paths.foreign_formats import ForeignFolder
from lakesweep.sweep.plan.document import IncompleteRoot, incomplete_roots
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.iceberg_scan import ScanRoots
from lakesweep.sweep.roots.own_catalog import RealmRoots
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    RootKind,
    RootProblem,
    RootRow,
    RootSource,
)
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.errors import LakesweepError
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks
    from lakesweep.sweep.roots.root import RootSource


#: Looking takes no more than about a fifth of the time, however busy the lake is.
_REST = 4
#: Roots that never rest are looked at again no more often than this before the next batch.
_LOOKS = 4
#: Schemas of Paimon tables are read by this many threads.
_WORKERS = 16
#: A request names its files itself, so neither neighbours nor `gc.enabled` decide about them.
_NOT_ASKED = (GuardName.FOREIGN, GuardName.GC_ENABLED)


def references_only(rules: JudgeRules) -> JudgeRules:
    """Rules that keep what is referenced or always protected; age and names do not matter."""
    return replace(rules, families=frozenset(FormatFamily), excludes=(), keep_unknown=False)


@dataclass(frozen=True)
class ReferencedFiles:
    """One answer: the roots as they were read, and the files that stay (VERDICTS)."""

    stores: Stores
    marks: Marks
    ruling: LakeRules
    totals: pa.Table
    staying: Dataset

    @cached_property
    def kept(self) -> HashSet:
        """The hashes of the files that stay."""
        return load_hashes(self.stores, self.staying)

    def size_bytes(self) -> int:
        """The size of the files that stay, as far as known."""
        batches = read_dataset(self.stores, self.staying, ["size_bytes"])
        return sum(pc.sum(batch["size_bytes"]).as_py() or 0 for batch in batches)

    def reasons(self) -> Counter[Reason]:
        """How many files stay, by reason."""
        found: Counter[Reason] = Counter()
        for batch in read_dataset(self.stores, self.staying, ["reason"]):
            for row in batch["reason"].value_counts().to_pylist():
                found[Reason(row["values"])] += row["counts"]
        return found

    def example(self, reason: Reason) -> str | None:
        """One of the files that stay for a reason."""
        wanted = pc.field("reason") == reason.value
        rows = read_dataset(self.stores, self.staying, ["path", "reason"], wanted)
        return next((str(batch["path"][0]) for batch in rows if batch.num_rows), None)


@dataclass(frozen=True)
class ReferenceCheck:
    """Asks all roots which of some files they keep. Writes below `address`.

    `lake` has the locations that the files may lie in, and the folders that never go. `veto` makes
    the error for a root that cannot be read. `formats` are tables of other formats; those that no
    root reads keep everything in their folders.
    """

    stores: Stores
    engine: SweepEngine
    clock: Clock
    lake: Lake
    sources: Callable[[], Sequence[RootSource]]
    address: str
    veto: Callable[[IncompleteRoot], LakesweepError]
    memory: Mapping[str, RootMemory] = field(default_factory=dict)
    progress: Progress = SILENT
    rules: Callable[[JudgeRules], JudgeRules] = references_only
    formats: tuple[ForeignFolder, ...] = ()
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def look(self, files: Dataset, cache: Marks | None = None) -> ReferencedFiles:
        """Read all roots as they are now, and judge files (LISTING) by them.

        Earlier marks as a `cache` save reading manifests again.
        """
        folder = f"{self.address}/look-{next(self._numbers)}"
        marks = self._mark(folder, cache)
        for root in incomplete_roots(marks):
            raise self.veto(root)
        now = self.clock.now()
        ruling = make_rules(
            self.lake,
            marks,
            self.memory,
            _NOT_ASKED,
            now=now,
            cutoff=now,
            found=SurveyedFolders(self.formats),
        )
        # A reference may mean a file by another spelling of its key.
        search = DanglingSearch(self.stores, self.engine, f"{folder}/doubts", counts=False)
        meant = search.look(self.lake, LakeSurvey(files, marks))
        keep, delete = f"{folder}/keep", f"{folder}/delete"
        step = JudgeStep(
            self.stores,
            keep,
            delete,
            self.rules(ruling.rules),
            doubts=meant.filters,
            namesakes=meant.namesakes,
        )
        answers = self.engine.match(step, files, marks.content, TASK_RESULTS)
        parts = results_of(answers, Verdict.KEEP.value, Part)
        staying = commit_dataset(self.stores, keep, parts, VERDICTS)
        return ReferencedFiles(self.stores, marks, ruling, answers, staying)

    def _mark(self, folder: str, cache: Marks | None) -> Marks:
        with show_progress(
            self.stores, folder, self.progress, "marked", unit="metadata files"
        ) as shown:
            spec = MarkSpec(
                self.engine, self.stores, f"{folder}/marks", cache=cache, counts=shown.folder
            )
            marks = mark(spec, self.sources())
            shown.reach(marks.datasets["sources"].rows)
        return marks


def listing_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Files, with `path` and `size_bytes`, as rows of LISTING that are old enough for any grace."""
    for batch in batches:
        rows = batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [
                batch["path"],
                batch["size_bytes"],
                pa.repeat(pa.scalar(FIRST_TIME, LISTING.field("modified").type), rows),
                pa.nulls(rows, pa.string()),
                *hash_columns(file_hashes(batch["path"])),
            ],
            schema=LISTING,
        )


def keep_referenced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The outcomes (OUTCOME_SCHEMA) of files that stay because a root references them."""
    for batch in batches:
        rows = batch.num_rows
        outcome = pa.repeat(pa.scalar(Outcome.REFERENCED.value), rows)
        columns = [batch["path"], outcome, pa.nulls(rows, pa.string()), batch["size_bytes"]]
        yield pa.RecordBatch.from_arrays(columns, schema=OUTCOME_SCHEMA)


@dataclass
class UnreferencedDeletion:
    """A deleter that leaves what any root references.

    It looks at the roots when it is entered, right before the first delete, again if one moved
    during that look, and watches them from then on. When one moves, it looks again before the next
    batch. What a table takes up between two looks, or while a batch is under way, can still be
    lost.
    """

    look: Callable[[], ReferencedFiles]
    sources: Callable[[], Sequence[RootSource]]
    delete: Deleter
    keep: Deleter = keep_referenced
    every: timedelta = WATCH_SECONDS
    batch_rows: int = BATCH_ROWS

    def __post_init__(self) -> None:
        self._watch = ExitStack()
        self._moved = threading.Event()
        self._kept = HashSet()

    def __enter__(self) -> Self:
        self._look(is_first=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Delete files batch by batch; their outcomes, not in order."""
        for batch in small_batches(batches, self.batch_rows):
            free, kept = self.divide(batch)
            yield from self.delete([free])
            yield from self.keep([kept])

    def divide(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The files that may be deleted now, and those that stay; looks again if a root moved."""
        if self._moved.is_set():
            self._look(is_first=False)
        kept = pa.array(self._kept.contains(file_hashes(batch["path"])))
        return batch.filter(pc.invert(kept)), batch.filter(kept)

    def _look(self, *, is_first: bool) -> None:
        """Learn which files stay, and watch the roots from then on."""
        self._watch.close()
        begin, every = time.monotonic(), self.every.total_seconds()
        seen = self.look()
        watch = RootWatch(self.sources(), seen.marks, every)
        # Reading all roots takes long in a large catalog, and a table that was read first may take
        # up files before the last one is. Later looks read only what has changed.
        for _ in range(_LOOKS):
            if not may_have_moved(watch):
                break
            seen = self.look()
            watch = RootWatch(self.sources(), seen.marks, every)
        if not is_first:
            watch = replace(watch, every_seconds=max(every, _REST * (time.monotonic() - begin)))
        self._moved, self._kept = threading.Event(), seen.kept
        self._watch.enter_context(watch_roots(watch, self._moved.set))


def small_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches that are small enough to notice in between that a root moved."""
    for batch in coalesce_batches(batches, rows):
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


@dataclass(frozen=True)
class PurgeTarget:
    """The table or view to purge, by its name in a catalog or by its metadata file alone.

    `roots` are the sources and names under which it was found. With `file_alone`, a catalog entry
    that points to the same file is a root of its own: it goes on to need what the file names.
    """

    pointer: str
    facts: RootFacts
    catalog: str | None = None
    name: str | None = None
    roots: set[tuple[str, str]] = field(default_factory=set)
    file_alone: bool = False

    @property
    def names(self) -> list[str]:
        """The names under which catalogs list it."""
        return sorted(name for _, name in self.roots if name != self.pointer)


#: What sources of roots listed, by their names.
ListedRoots = dict[str, tuple[RootRow | RootProblem | EmptyRootSource, ...]]


@dataclass(frozen=True)
class RecordedRoots:
    """A source whose list is kept in `listed`, and taken from there unless `asks` is set."""

    source: RootSource
    listed: ListedRoots
    asks: bool

    @property
    def name(self) -> str:
        return self.source.name

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        if self.asks or self.name not in self.listed:
            self.listed[self.name] = tuple(self.source.collect())
        return iter(self.listed[self.name])

    def look(self, root: RootRow) -> RootRow | None:
        return self.source.look(root)


@dataclass(frozen=True)
class RootsBeside:
    """A source without the root that is the target; newer versions of it are roots of their own."""

    source: RootSource
    target: PurgeTarget

    @property
    def name(self) -> str:
        return self.source.name

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        for found in self.source.collect():
            if not self._is_target(found):
                yield found

    def look(self, root: RootRow) -> RootRow | None:
        return self.source.look(root)

    def _is_target(self, found: RootRow | RootProblem | EmptyRootSource) -> bool:
        match found:
            case EmptyRootSource():
                return False
            case RootProblem():
                # A folder cannot be resolved any more once its version hint was purged.
                return (self.name, str(found.name)) in self.target.roots
            case RootRow() if self._matches(found):
                self.target.roots.add((self.name, found.name))
                return True
            case RootRow():
                return False

    def _matches(self, row: RootRow) -> bool:
        target = self.target
        is_same = identity(row.pointer) == identity(target.pointer)
        source = self.source
        match source.source if isinstance(source, RecordedRoots) else source:
            case CatalogRoots() | RealmRoots() if target.catalog is not None:
                return self.name == target.catalog and row.name == target.name
            case ScanRoots():
                is_older = has_superseded(target.pointer, target.facts, row.pointer)
                return row.unless_known == target.facts.uuid and is_older
            case MetadataRoots():
                return is_same
            case _:
                return is_same and target.catalog is None and not target.file_alone


@dataclass(frozen=True)
class TablesRead:
    """Paimon tables that a caller has read itself, and the places where files are in question.

    The `folders` of the tables are identities without links.
    """

    folders: frozenset[str]
    places: tuple[str, ...]


@dataclass(frozen=True)
class RootsBesideTables:
    """A source without some Paimon tables, and without those that cannot need files in question.

    A Paimon table has files in its own folder and in external ones that its schemas name. If these
    are all elsewhere, nothing in it needs to be read.
    """

    stores: Stores
    source: RootSource
    read: TablesRead

    @property
    def name(self) -> str:
        return self.source.name

    def collect(self) -> Iterator[RootRow | RootProblem | EmptyRootSource]:
        everything = list(self.source.collect())
        left_out = map_ordered(self._is_left_out, everything, workers=_WORKERS)
        for found, is_out in zip(everything, left_out, strict=True):
            if not is_out:
                yield found

    def look(self, root: RootRow) -> RootRow | None:
        return self.source.look(root)

    def _is_left_out(self, found: RootRow | RootProblem | EmptyRootSource) -> bool:
        if isinstance(found, EmptyRootSource) or found.kind is not RootKind.PAIMON_TABLE:
            return False
        return any(
            real_folder(folder) in self.read.folders or self._is_elsewhere(folder)
            for folder in found.locations[:1]
        )

    def _is_elsewhere(self, folder: str) -> bool:
        """Whether a table has no files in the places in question, as far as it can be read."""
        try:
            roots = PaimonTable(self.stores, parse(folder)).external_roots
        except Exception:
            return False  # it may name any place
        places = [folder_identity(each) for each in self.read.places]
        return not any(overlaps(each, places) for each in (folder, *roots))
