"""Bloom filters of a subset of the live files, selected by kind or by name.

A Paimon manifest that deletes a file does not say whether an older snapshot or a tag still needs
it; only the complete state of each of them does. So all of them are read again, table by table, and
asked about these files only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import hash128
from lakesweep.paimon.model.file_names import PaimonKind
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.claims import OwnerClaim
from lakesweep.paimon.reach.retained_files import RetainedFiles
from lakesweep.storage.address import identities, parse
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.file_identity import hash_columns, resolve_aliases
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine.local_engine import LocalSweepEngine, load_hashes
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.judge.bloom_shards import StoredShard
from lakesweep.sweep.judge.live_set import LiveSet
from lakesweep.sweep.judge.paimon_names import base_names
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.sweep.roots.root import RootKind

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.mark.marks import Marks

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
