"""Search what a plan listed and marked for dangling references, and name the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakesweep.storage.datasets.manifest import Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.sweep.columns import HASHES
from lakesweep.sweep.engine.tasks import TASK_RESULTS, results_of
from lakesweep.sweep.judge.dangling_references import DanglingCount, DanglingStep
from lakesweep.sweep.judge.live_subsets import FEW_ROWS, SubsetFilters
from lakesweep.sweep.mark.lineage import RootLineage, trace
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
    use. `missing` counts those in the locations, of which not all were checked, and `tables` name
    their tables.
    """

    filters: Sequence[str] = ()
    namesakes: Sequence[str] = ()
    missing: int = 0
    tables: Sequence[str] = ()


@dataclass(frozen=True)
class DanglingSearch:
    """Finds references of a plan that are not stored; everything is written below a folder.

    This takes two passes over the data at hand, without a join; two more if there are Paimon
    tables.
    """

    stores: Stores
    engine: SweepEngine
    folder: str
    few: int = FEW_ROWS

    def look(self, lake: Lake, survey: LakeSurvey) -> DanglingResult:
        """Find the dangling references, and the stored files that they may mean."""
        content = survey.marks.content
        theirs = (each for locations in lake.neighbours.values() for each in locations)
        address = f"{self.folder}/loose"
        chooser = SubsetFilters(self.stores, self.engine, self.folder, self.few)
        step = DanglingStep(
            self.stores,
            address,
            chooser.filter(survey.listing, "stored"),
            location_map(lake.locations),
            location_map(theirs),
            chooser.optional(survey.marks),
        )
        answers = chooser.on(content).gather(step, content, TASK_RESULTS)
        loose = commit_dataset(self.stores, address, results_of(answers, "part", Part), HASHES)
        astray = list(results_of(answers, "astray", DanglingCount))
        return DanglingResult(
            chooser.filter(loose, "meant") if loose.rows else (),
            chooser.used_names(survey.marks),
            sum(each.files for each in astray),
            self._tables(survey.marks, astray),
        )

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
