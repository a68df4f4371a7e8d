"""Write the rows of the mark phase, each kind into its own dataset, in one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.decoding import convert
from lakesweep.marks.columns import (
    CHILDREN,
    FACTS,
    LIVE,
    POINTERS,
    PROBLEMS,
    SOURCES,
    USAGE,
    MarkBatch,
    MarkKind,
)
from lakesweep.runs.task_progress import TaskCounter
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset, DatasetManifest, Part
from lakesweep.storage.datasets.writer import PART_SCHEMA, DatasetWriter
from lakesweep.sweep.columns import EDGES

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: Parts of several datasets, as rows.
NAMED_PARTS = pa.schema([pa.field("dataset", pa.string(), nullable=False), *PART_SCHEMA])

#: The columns of every dataset that marking writes.
DATASETS: Mapping[str, pa.Schema] = {
    "content": LIVE,
    "sources": SOURCES,
    "edges": EDGES,
    "problems": PROBLEMS,
    "usage": USAGE,
    "pointers": POINTERS,
    "children": CHILDREN,
    "facts": FACTS,
}

_DATASET_OF = {
    MarkKind.LIVE: "content",
    MarkKind.SOURCE: "sources",
    MarkKind.PROBLEM: "problems",
    MarkKind.USAGE: "usage",
    MarkKind.CHILD: "children",
    MarkKind.FACT: "facts",
}


class LevelReader(Protocol):
    """A kernel that reads the files of one level."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MarkBatch]: ...


@dataclass(frozen=True)
class MarkSink:
    """Writes parts of datasets, each at its own address. Picklable: one call per task."""

    stores: StoreOpener
    addresses: Mapping[str, str]

    def write(self, marked: Iterable[MarkBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows; yields their parts as NAMED_PARTS."""
        writers: dict[str, DatasetWriter] = {}
        for what, rows in marked:
            self._add(writers, _DATASET_OF[what], rows)
            if what is MarkKind.CHILD:
                self._add(writers, "edges", _edges(rows))
        for name, writer in writers.items():
            parts = writer.finish()
            if parts:
                yield named_parts(name, parts)

    def _add(self, writers: dict[str, DatasetWriter], name: str, rows: pa.RecordBatch) -> None:
        if name not in writers:
            writers[name] = DatasetWriter(self.stores, self.addresses[name], DATASETS[name])
        writers[name].add(rows)


@dataclass(frozen=True)
class LevelStep:
    """Reads the pointers of one level and writes what it finds, except for skipped sources.

    A kernel for any engine: POINTERS in, NAMED_PARTS out.
    """

    level: LevelReader
    sink: MarkSink
    skipped: npt.NDArray[np.int64]
    counts: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.sink.write(self._counted(self.level(map(self._wanted, batches))))

    def _counted(self, marked: Iterable[MarkBatch]) -> Iterator[MarkBatch]:
        counter = TaskCounter(self.sink.stores, self.counts)
        for each in marked:
            if each.what is MarkKind.SOURCE:
                counter.add(each.rows.num_rows)
            yield each

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not len(self.skipped):
            return batch
        skipped = is_among(batch["source"].to_numpy(), self.skipped)
        return batch.filter(pa.array(~skipped))


def is_among(
    numbers: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which numbers are among the chosen ones, which are sorted."""
    if not len(chosen):
        return np.zeros(len(numbers), dtype=np.bool_)
    places = np.minimum(np.searchsorted(chosen, numbers), len(chosen) - 1)
    return np.equal(chosen[places], numbers)


def named_parts(dataset: str, parts: Iterable[Part]) -> pa.RecordBatch:
    """Parts of a dataset as NAMED_PARTS."""
    rows = [{"dataset": dataset, **msgspec.to_builtins(part)} for part in parts]
    return pa.RecordBatch.from_pylist(rows, schema=NAMED_PARTS)


def parts_by_dataset(rows: pa.Table) -> defaultdict[str, list[Part]]:
    """The parts in rows of NAMED_PARTS, by dataset."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    for row in rows.to_pylist():
        found[row.pop("dataset")].append(convert(row, Part))
    return found


def provisional(address: str, name: str, parts: Iterable[Part]) -> Dataset:
    """Stored but uncommitted parts, for the process that wrote them."""
    folder = parse(address)
    return DatasetManifest.of(parts, DATASETS[name]).dataset(folder.child(folder.folder).path)


def _edges(children: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([children["parent"], children["source"]], schema=EDGES)
