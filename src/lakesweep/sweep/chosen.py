"""Filters of some of the files that marks name: chosen by kind, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import hash128
from lakesweep.paimon.kinds import Kind
from lakesweep.storage.address import identities
from lakesweep.storage.datasets import Dataset, DatasetWriter, Part, commit_dataset
from lakesweep.storage.file_hashes import hash_columns
from lakesweep.storage.local.aliases import resolve
from lakesweep.sweep.answers import ANSWERS, answer, answers_of
from lakesweep.sweep.columns import HASHES
from lakesweep.sweep.engine import LocalEngine
from lakesweep.sweep.liveset import LiveSet
from lakesweep.sweep.namings import file_names
from lakesweep.sweep.owners import FolderMap, claimed_folder
from lakesweep.sweep.roots import RootKind
from lakesweep.sweep.still_shown import without_shown

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.marks import Marks

#: What Paimon tables name, or have, and may do without.
_OPTIONAL = pa.array([Kind.FORMER, Kind.HINT, Kind.CONSUMER, Kind.SERVICE])
#: Up to so many rows are looked at here: to start tasks would take longer.
FEW = 1_000_000


class Choice(Protocol):
    """Chooses hashes (HASHES) from live files (LIVE). Can be pickled."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


@dataclass(frozen=True)
class NamesIn:
    """The names of files that lie in some folders."""

    folders: FolderMap

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        inside = self.folders.find(resolve(identities(batch["path"]))) >= 0
        names = file_names(batch["path"].filter(pa.array(inside)))
        return pa.RecordBatch.from_arrays(list(hash_columns(hash128(names))), schema=HASHES)


def optional_files(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Files that nobody misses."""
    rows = batch.filter(pc.is_in(batch["kind"], value_set=_OPTIONAL))
    return pa.RecordBatch.from_arrays([rows["h1"], rows["h2"]], schema=HASHES)


@dataclass(frozen=True)
class ChoiceStep:
    """Writes what is chosen of live files into parts of a dataset of HASHES."""

    stores: Stores
    address: str
    choice: Choice

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HASHES)
        for batch in batches:
            writer.add(self.choice(batch))
        yield answer("part", writer.finish())


@dataclass(frozen=True)
class Chooser:
    """Makes filters of what marks name; all is written below a folder."""

    stores: Stores
    engine: SweepEngine
    folder: str
    few: int = FEW

    def used_names(self, marks: Marks) -> Sequence[str]:
        """The names of all files that Paimon tables use; no filter where there are none."""
        folders = (
            claimed_folder(folder)
            for root in marks.roots
            if root.kind is RootKind.PAIMON_TABLE
            for folder in root.folders
        )
        return self._choose(marks, NamesIn(FolderMap((each, "") for each in folders)), "names")

    def optional(self, marks: Marks) -> Sequence[str]:
        """What tables name and may not need; no filter where there is nothing of the kind."""
        return self._choose(marks, optional_files, "optional")

    def unneeded(self, marks: Marks) -> Sequence[str]:
        """What tables name and do not need, which takes another look at all of their manifests."""
        files = self._chosen(marks, optional_files, "optional")
        if not files.rows:
            return ()
        rest = without_shown(self.stores, self.on(files), marks, files, f"{self.folder}/unneeded")
        return self.filter(rest, "optional") if rest.rows else ()

    def filter(self, rows: Dataset, name: str) -> Sequence[str]:
        """The filter of all files of a dataset."""
        live = LiveSet(self.stores, self.on(rows), rows, f"{self.folder}/{name}", 0)
        return live.build()[0]

    def on(self, rows: Dataset) -> SweepEngine:
        """Where so many rows are best looked at."""
        return LocalEngine(self.stores) if rows.rows <= self.few else self.engine

    def _choose(self, marks: Marks, choice: Choice, name: str) -> Sequence[str]:
        chosen = self._chosen(marks, choice, name)
        return self.filter(chosen, name) if chosen.rows else ()

    def _chosen(self, marks: Marks, choice: Choice, name: str) -> Dataset:
        content = marks.content
        address = f"{self.folder}/{name}-hashes"
        parts: Iterable[Part] = ()
        if content.rows and any(root.kind is RootKind.PAIMON_TABLE for root in marks.roots):
            step = ChoiceStep(self.stores, address, choice)
            answers = self.on(content).gather(step, content, ANSWERS)
            parts = answers_of(answers, "part", Part)
        return commit_dataset(self.stores, address, parts, HASHES)
