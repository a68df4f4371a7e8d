"""Search what a plan listed and marked for dangling references, and name the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.sweep.columns import HASHES
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from lakesweep.sweep.judge.bloom_shards import StoredShard
from lakesweep.sweep.judge.dangling_references import DanglingCount, DanglingStep, LinkStep
from lakesweep.sweep.judge.live_subsets import FEW_ROWS, SubsetFilters
from lakesweep.sweep.mark.root_status import RootLineage, trace
from lakesweep.sweep.mark.survey import LakeSurvey
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.mark.marks import Marks, RootMark


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
