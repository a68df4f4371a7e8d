"""Files that commits to Paimon tables deleted, and that an older snapshot or a tag still shows.

A manifest that deletes a file says nothing of who needs it: only the whole state of each owner
does. So all owners are read once more, table by table, and asked about these files alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.paimon.claims import Claim
from lakesweep.paimon.protection import Protection
from lakesweep.paimon.table import PaimonTable
from lakesweep.storage.address import parse
from lakesweep.storage.datasets import Dataset, DatasetWriter, Part, commit_dataset, read_dataset
from lakesweep.sweep.answers import ANSWERS, answer, answers_of
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine import known_hashes
from lakesweep.sweep.marks import RootState
from lakesweep.sweep.roots import RootKind

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.marks import Marks


@dataclass(frozen=True)
class ShownStep:
    """Writes those of some files (HASHES) that a table shows in any of its states."""

    stores: Stores
    address: str
    files: Dataset

    def __call__(self, folder: str) -> Iterator[pa.RecordBatch]:
        table = PaimonTable(self.stores, parse(folder))
        shown = Protection(table, known_hashes(self.stores, self.files))
        shown.hold_owners(claim_of=Claim.of_readers)
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in read_dataset(self.stores, self.files):
            writer.add(batch.filter(pa.array(shown.holds(hashes_of(batch)))))
        yield answer("part", writer.finish())


@dataclass(frozen=True)
class WithoutStep:
    """Writes the rows of HASHES that are not among others."""

    stores: Stores
    address: str
    others: Dataset

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        others = known_hashes(self.stores, self.others)
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in batches:
            writer.add(batch.filter(pa.array(~others.contains(hashes_of(batch)))))
        yield answer("part", writer.finish())


def without_shown(
    stores: Stores, engine: SweepEngine, marks: Marks, files: Dataset, address: str
) -> Dataset:
    """The rows of HASHES that no Paimon table shows, of those tables that could be read."""
    complete = marks.in_state(RootState.COMPLETE)
    folders = [f"{root.name}/" for root in complete if root.kind is RootKind.PAIMON_TABLE]
    step = ShownStep(stores, f"{address}-shown", files)
    shown = _commit(stores, step.address, engine.run(step, folders, ANSWERS))
    if not shown.rows:
        return files
    rest = WithoutStep(stores, f"{address}-rest", shown)
    return _commit(stores, rest.address, engine.gather(rest, files, ANSWERS))


def _commit(stores: Stores, address: str, answers: pa.Table) -> Dataset:
    return commit_dataset(stores, address, answers_of(answers, "part", Part), HASHES)
