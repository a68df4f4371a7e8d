"""A check: what is referenced and not stored, found before a reader finds it.

Lakes are written to while they are checked. A file that was made since the listing is there when it
is looked at once more. A file that was removed since, with the snapshot that named it, is not: so a
table that lacks files and has moved is marked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.storage.datasets import Dataset, Part, commit_dataset, read_dataset
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.columns import MISSING
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
        locations = FolderMap((claimed_folder(each), each) for each in lake.locations)
        step = MissStep(self.stores, address, locations, self._needs(marks))
        answers = self.engine.miss(step, listing, marks.content, ANSWERS)
        parts = answers_of(answers, "part", Part)
        return Checked(
            marks,
            commit_dataset(self.stores, address, parts, MISSING),
            sum(answers_of(answers, "files", int)),
            sum(answers_of(answers, "outside", int)),
            tuple(_merge(answers_of(answers, "gap", Gap))),
        )

    def _needs(self, marks: Marks) -> Needs:
        numbers = [root.source for root in marks.roots if root.source is not None]
        edges = marks.datasets["edges"]
        return Needs.of(marks.roots, trace(numbers, lambda: read_dataset(self.stores, edges)))


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
