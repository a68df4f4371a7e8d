"""Search what a plan listed and marked for dangling references, and name the tables.

Bloom filters of a subset of the live files, selected by kind or by name, answer the rest. A Paimon
manifest that deletes a file does not say whether an older snapshot or a tag still needs it; only
the complete state of each of them does. So all of them are read again, table by table, and asked
about these files only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import hash128
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.claims import OwnerClaim
from lakesweep.paimon.reach.retained_files import RetainedFiles
from lakesweep.storage.address import StoreKind, identities, parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.file_identity import hash_columns, resolve_aliases
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine.local_engine import LocalSweepEngine, load_hashes
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.judge.bloom_shards import StoredShard
from lakesweep.sweep.judge.dangling_references import DanglingCount, DanglingStep, LinkStep
from lakesweep.sweep.judge.live_set import LiveSet
from lakesweep.sweep.judge.paimon_names import base_names
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.mark.root_status import RootLineage, trace
from lakesweep.sweep.mark.survey import LakeSurvey
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.roots.root import RootKind

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks, RootMark


#: Kinds that Paimon tables name or contain, but do not need.
_OPTIONAL = pa.array([PaimonKind.FORMER, PaimonKind.HINT, PaimonKind.CONSUMER, PaimonKind.SERVICE])
#: Up to this many rows are processed here: starting tasks would take longer.
FEW_ROWS = 1_000_000


class HashSelector(Protocol):
    """Selects hashes (HASHES) from live files (LIVE). Picklable."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class NamesIn:
    """The names of files in some folders."""

    folders: FolderMap

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        inside = self.folders.find(resolve_aliases(identities(batch["path"]))) >= 0
        names = base_names(batch["path"].filter(pa.array(inside)))
        return pa.RecordBatch.from_arrays(list(hash_columns(hash128(names))), schema=HASHES)


def optional_files(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Files that may be missing."""
    rows = batch.filter(pc.is_in(batch["kind"], value_set=_OPTIONAL))
    return pa.RecordBatch.from_arrays([rows["h1"], rows["h2"]], schema=HASHES)


@dataclass(frozen=True)
class SelectStep:
    """Writes the selected live files into parts of a dataset of HASHES."""

    stores: Stores
    address: str
    choice: HashSelector

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in batches:
            writer.add(self.choice(batch))
        yield task_result("part", writer.finish())


@dataclass(frozen=True)
class SubsetFilters:
    """Builds filters of what marks name; everything is written below a folder."""

    stores: Stores
    engine: SweepEngine
    folder: str
    few: int = FEW_ROWS

    def used_names(self, marks: Marks) -> Sequence[StoredShard]:
        """The names of all files that Paimon tables use; no filter if there are none."""
        folders = (
            claimed_folder(folder)
            for root in marks.roots
            if root.kind is RootKind.PAIMON_TABLE
            for folder in root.folders
        )
        return self._choose(marks, NamesIn(FolderMap((each, "") for each in folders)), "names")

    def optional(self, marks: Marks) -> Sequence[StoredShard]:
        """What tables name but may not need; no filter if there is none."""
        return self._choose(marks, optional_files, "optional")

    def unneeded(self, marks: Marks) -> Sequence[StoredShard]:
        """What tables name but do not need, which requires reading all of their manifests again."""
        files = self._chosen(marks, optional_files, "optional")
        if not files.rows:
            return ()
        rest = without_needed(self.stores, self.on(files), marks, files, f"{self.folder}/unneeded")
        return self.filter(rest, "optional") if rest.rows else ()

    def filter(self, rows: Dataset, name: str) -> Sequence[StoredShard]:
        """The filter of all files of a dataset."""
        live = LiveSet(self.stores, self.on(rows), rows, f"{self.folder}/{name}", 0)
        return live.build()[0]

    def on(self, rows: Dataset) -> SweepEngine:
        """The engine that suits this number of rows."""
        return LocalSweepEngine(self.stores) if rows.rows <= self.few else self.engine

    def _choose(self, marks: Marks, choice: HashSelector, name: str) -> Sequence[StoredShard]:
        chosen = self._chosen(marks, choice, name)
        return self.filter(chosen, name) if chosen.rows else ()

    def _chosen(self, marks: Marks, choice: HashSelector, name: str) -> Dataset:
        content = marks.content
        address = f"{self.folder}/{name}-hashes"
        parts: Iterable[Part] = ()
        if content.rows and any(root.kind is RootKind.PAIMON_TABLE for root in marks.roots):
            step = SelectStep(self.stores, address, choice)
            answers = self.on(content).gather(step, content, TASK_RESULTS)
            parts = results_of(answers, "part", Part)
        return commit_dataset(self.stores, address, parts, HASHES)


@dataclass(frozen=True)
class NeededStep:
    """Writes those of some files (HASHES) that a table contains in any of its states."""

    stores: Stores
    address: str
    files: Dataset

    def __call__(self, folder: str) -> Iterator[pa.RecordBatch]:
        table = PaimonTable(self.stores, parse(folder))
        shown = RetainedFiles(table, load_hashes(self.stores, self.files))
        shown.hold_owners(claim_of=OwnerClaim.of_readers)
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in read_dataset(self.stores, self.files):
            writer.add(batch.filter(pa.array(shown.holds(hashes_of(batch)))))
        yield task_result("part", writer.finish())


@dataclass(frozen=True)
class WithoutStep:
    """Writes the rows of HASHES that are not among others."""

    stores: Stores
    address: str
    others: Dataset

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        others = load_hashes(self.stores, self.others)
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in batches:
            writer.add(batch.filter(pa.array(~others.contains(hashes_of(batch)))))
        yield task_result("part", writer.finish())


def without_needed(
    stores: Stores, engine: SweepEngine, marks: Marks, files: Dataset, address: str
) -> Dataset:
    """The rows of HASHES that no readable Paimon table contains."""
    # Incomplete tables cannot be asked; the result says nothing about their files.
    complete = marks.in_state(RootState.COMPLETE)
    folders = [f"{root.name}/" for root in complete if root.kind is RootKind.PAIMON_TABLE]
    step = NeededStep(stores, f"{address}-shown", files)
    shown = _commit(stores, step.address, engine.run(step, folders, TASK_RESULTS))
    if not shown.rows:
        return files
    rest = WithoutStep(stores, f"{address}-rest", shown)
    return _commit(stores, rest.address, engine.gather(rest, files, TASK_RESULTS))


def _commit(stores: Stores, address: str, answers: pa.Table) -> Dataset:
    return commit_dataset(stores, address, results_of(answers, "part", Part), HASHES)


@dataclass(frozen=True)
class DanglingResult:
    """Dangling references of a plan.

    `filters` match the stored files that they may mean, `namesakes` the names that Paimon tables
    use. `missing` counts the files in the locations that are referenced and not stored, and
    `tables` name the tables that lack them.
    """

    filters: Sequence[StoredShard] = ()
    namesakes: Sequence[StoredShard] = ()
    missing: int = 0
    tables: Sequence[str] = ()


@dataclass(frozen=True)
class DanglingSearch:
    """Finds all references of marks that are not stored; everything is written below a folder.

    Without `counts`, it only finds what references may mean: nothing is looked up.
    """

    stores: Stores
    engine: SweepEngine
    folder: str
    few: int = FEW_ROWS
    counts: bool = True

    def look(self, lake: Lake, survey: LakeSurvey) -> DanglingResult:
        """Find the dangling references, and the stored files that they may mean."""
        content = survey.marks.content
        if not content.rows:
            return DanglingResult()
        chooser = SubsetFilters(self.stores, self.engine, self.folder, self.few)
        answers = [self._missing(lake, survey, chooser), *self._links(lake, content, chooser)]
        parts = [part for each in answers for part in results_of(each, "part", Part)]
        loose = commit_dataset(self.stores, self._loose, parts, HASHES)
        astray = list(results_of(answers[0], "astray", DanglingCount))
        return DanglingResult(
            chooser.filter(loose, "meant") if loose.rows else (),
            chooser.used_names(survey.marks),
            sum(results_of(answers[0], "files", int)),
            self._tables(survey.marks, astray),
        )

    @property
    def _loose(self) -> str:
        return f"{self.folder}/loose"

    def _missing(self, lake: Lake, survey: LakeSurvey, chooser: SubsetFilters) -> pa.Table:
        """An exact join: a filter of the listing would hide some dangling references."""
        listing, content = survey.listing, survey.marks.content
        theirs = (each for locations in lake.neighbours.values() for each in locations)
        step = DanglingStep(
            self.stores,
            self._loose,
            location_map(self._looked_up(lake, survey)),
            location_map(theirs),
            chooser.optional(survey.marks),
        )
        engine = chooser.on(content) if listing.rows <= self.few else self.engine
        return engine.miss(step, listing, content, TASK_RESULTS)

    def _looked_up(self, lake: Lake, survey: LakeSurvey) -> Iterator[str]:
        """The locations in which a file that was not listed may be missing."""
        unlisted = {each.location for each in survey.unlisted}
        return (each for each in lake.locations if self.counts and each not in unlisted)

    def _links(self, lake: Lake, content: Dataset, chooser: SubsetFilters) -> Iterator[pa.Table]:
        """What live files lead to that are links; only local files can be."""
        if any(parse(location).kind is StoreKind.FILE for location in lake.locations):
            step = LinkStep(self.stores, self._loose)
            yield chooser.on(content).gather(step, content, TASK_RESULTS)

    def _tables(self, marks: Marks, astray: Sequence[DanglingCount]) -> Sequence[str]:
        if not astray:
            return ()
        needs = root_needs(self.stores, marks)
        numbers = np.array([each.source for each in astray], np.int64)
        _, roots = needs.lineage.expand(numbers)
        return sorted(set(needs.names.take(pa.array(roots)).to_pylist()))


def root_needs(stores: Stores, marks: Marks) -> RootNeeds:
    numbers = [root.source for root in marks.roots if root.source is not None]
    edges = marks.datasets["edges"]
    return RootNeeds.of(marks.roots, trace(numbers, lambda: read_dataset(stores, edges)))


def location_map(locations: Iterable[str]) -> FolderMap:
    return FolderMap((claimed_folder(each), each) for each in locations)


@dataclass(frozen=True)
class RootNeeds:
    """Which roots need what a source names. Roots are indexes into the names."""

    names: pa.Array
    lineage: RootLineage

    @classmethod
    def of(cls, roots: Sequence[RootMark], lineage: RootLineage) -> RootNeeds:
        """The needs of marked roots; several may share one file as their own."""
        known = [(root.name, root.source) for root in roots if root.source is not None]
        numbers = np.arange(len(known), dtype=np.int64)
        by_file = RootLineage.of(numbers, np.array([source for _, source in known], np.int64))
        places, named = by_file.expand(lineage.roots)
        names = pa.array([name for name, _ in known], pa.string())
        return cls(names, RootLineage.of(named, lineage.sources[places]))
