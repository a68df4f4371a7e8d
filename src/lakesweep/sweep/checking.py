"""A check: what is referenced and not stored, found before a reader finds it.

Lakes are written to while they are checked. A file that was made since the listing is there when it
is looked at once more. A file that was removed since, with the snapshot that named it, is not: so a
table that lacks files and has moved is marked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakesweep.storage.datasets import Dataset, Part, commit_dataset, read_dataset
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.chosen import FEW, Chooser
from lakesweep.sweep.columns import HASHES, MISSING
from lakesweep.sweep.doubts import Astray, DoubtStep
from lakesweep.sweep.lineage import trace
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import mark
from lakesweep.sweep.missing import Gap, MissStep, Needs
from lakesweep.sweep.owners import FolderMap, claimed_folder
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.sweep.roots import RootRow, RootSource, collect_roots
from lakesweep.sweep.surveying import Survey, files_of

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.marks import Marks

#: So often tables that move are marked again.
_LOOKS = 3


@dataclass(frozen=True)
class Checked:
    """What a check found. `missing` has a row for each file and table, `files` counts files once.

    `outside` are referenced files outside of the lake's locations, which were not looked at.
    """

    marks: Marks
    missing: Dataset
    files: int
    outside: int
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class Checker:
    """Checks lakes. All parts that touch files run on the engine."""

    stores: Stores
    engine: SweepEngine
    sources: Sources = root_sources

    def check(self, lake: Lake, survey: Survey, address: str) -> Checked:
        """Find what is missing in a lake that was surveyed; all is written below an address."""
        marks = survey.marks
        listing = files_of(self.stores, survey.listing)
        sources = self.sources(self.stores, lake, listing)
        for look in range(_LOOKS):
            found = self._miss(lake, survey.listing, marks, f"{address}/missing-{look}")
            if not _has_moved(sources, found):
                return found
            spec = MarkSpec(self.engine, self.stores, f"{address}/marks-{look}", cache=marks)
            marks = mark(spec, sources)
        return self._miss(lake, survey.listing, marks, f"{address}/missing")

    def _miss(self, lake: Lake, listing: Dataset, marks: Marks, address: str) -> Checked:
        locations = _folders(lake.locations)
        optional = Chooser(self.stores, self.engine, f"{address}-chosen").unneeded(marks)
        step = MissStep(self.stores, address, locations, _needs(self.stores, marks), optional)
        answers = self.engine.miss(step, listing, marks.content, ANSWERS)
        parts = answers_of(answers, "part", Part)
        return Checked(
            marks,
            commit_dataset(self.stores, address, parts, MISSING),
            sum(answers_of(answers, "files", int)),
            sum(answers_of(answers, "outside", int)),
            tuple(_merge(answers_of(answers, "gap", Gap))),
        )


@dataclass(frozen=True)
class Doubtful:
    """What a plan knows of references that lead nowhere.

    `filters` know the stored files that they may mean, `namesakes` the names that Paimon tables
    use. `missing` counts those in the locations,
    of which not all were looked at, and `tables` name them.
    """

    filters: Sequence[str] = ()
    namesakes: Sequence[str] = ()
    missing: int = 0
    tables: Sequence[str] = ()


@dataclass(frozen=True)
class Doubter:
    """Looks at what a plan listed and marked from the other side; all is written below a folder.

    This costs two passes over what is at hand, and joins nothing; where there are Paimon tables,
    two more.
    """

    stores: Stores
    engine: SweepEngine
    folder: str
    few: int = FEW

    def look(self, lake: Lake, survey: Survey) -> Doubtful:
        """Find the references that lead nowhere, and what they may mean."""
        content = survey.marks.content
        theirs = (each for locations in lake.neighbours.values() for each in locations)
        address = f"{self.folder}/loose"
        chooser = Chooser(self.stores, self.engine, self.folder, self.few)
        step = DoubtStep(
            self.stores,
            address,
            chooser.filter(survey.listing, "stored"),
            _folders(lake.locations),
            _folders(theirs),
            chooser.optional(survey.marks),
        )
        answers = chooser.on(content).gather(step, content, ANSWERS)
        loose = commit_dataset(self.stores, address, answers_of(answers, "part", Part), HASHES)
        astray = list(answers_of(answers, "astray", Astray))
        return Doubtful(
            chooser.filter(loose, "meant") if loose.rows else (),
            chooser.used_names(survey.marks),
            sum(each.files for each in astray),
            self._tables(survey.marks, astray),
        )

    def _tables(self, marks: Marks, astray: Sequence[Astray]) -> Sequence[str]:
        if not astray:
            return ()
        needs = _needs(self.stores, marks)
        numbers = np.array([each.source for each in astray], np.int64)
        _, roots = needs.lineage.expand(numbers)
        return sorted(set(needs.names.take(pa.array(roots)).to_pylist()))


def _needs(stores: Stores, marks: Marks) -> Needs:
    numbers = [root.source for root in marks.roots if root.source is not None]
    edges = marks.datasets["edges"]
    return Needs.of(marks.roots, trace(numbers, lambda: read_dataset(stores, edges)))


def _folders(locations: Iterable[str]) -> FolderMap:
    return FolderMap((claimed_folder(each), each) for each in locations)


def _has_moved(sources: Sequence[RootSource], found: Checked) -> bool:
    """Whether a table that lacks files is no longer what was marked."""
    broken = {gap.table for gap in found.gaps}
    if not broken:
        return False
    pointers = {root.name: root.pointer for root in found.marks.roots if root.name in broken}
    now = {row.name: row.pointer for row in _rows(sources) if row.name in broken}
    return pointers != now


def _rows(sources: Iterable[RootSource]) -> Iterator[RootRow]:
    return (row for row in collect_roots(sources) if isinstance(row, RootRow))


def _merge(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """The gaps that tasks found, added up, by table and kind."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for gap in gaps:
        files, size = sums.get((gap.table, gap.kind), (0, 0))
        sums[gap.table, gap.kind] = (files + gap.files, size + gap.bytes)
    for (table, kind), (files, size) in sorted(sums.items()):
        yield Gap(table, kind, files, size)
