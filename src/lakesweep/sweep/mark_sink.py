"""Where the rows of marking are written: each kind into a dataset of its own, in one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.storage.address import parse
from lakesweep.storage.dataset_manifest import Manifest
from lakesweep.storage.datasets import PART_SCHEMA, Dataset, DatasetWriter, Part
from lakesweep.storage.marks import (
    CHILDREN,
    FACTS,
    LIVE,
    POINTERS,
    PROBLEMS,
    SOURCES,
    USAGE,
    Marked,
    What,
)
from lakesweep.sweep.columns import EDGES
from lakesweep.sweep.counting import Counter

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

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
    What.LIVE: "content",
    What.SOURCE: "sources",
    What.PROBLEM: "problems",
    What.USAGE: "usage",
    What.CHILD: "children",
    What.FACT: "facts",
}


class Level(Protocol):
    """A kernel that reads the files of one level."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Marked]: ...


@dataclass(frozen=True)
class Sink:
    """Writes parts of datasets, each at its own address. Can be pickled: one call a task."""

    stores: StoreOpener
    addresses: Mapping[str, str]

    def write(self, marked: Iterable[Marked]) -> Iterator[pa.RecordBatch]:
        """Write all rows; yields their parts as NAMED_PARTS."""
        writers: dict[str, DatasetWriter] = {}
        for what, rows in marked:
            self._add(writers, _DATASET_OF[what], rows)
            if what is What.CHILD:
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
    """Reads the pointers of one level and writes what is found, but for sources to be skipped.

    A kernel for any engine: POINTERS in, NAMED_PARTS out.
    """

    level: Level
    sink: Sink
    skipped: npt.NDArray[np.int64]
    counts: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.sink.write(self._counted(self.level(map(self._wanted, batches))))

    def _counted(self, marked: Iterable[Marked]) -> Iterator[Marked]:
        counter = Counter(self.sink.stores, self.counts)
        for each in marked:
            if each.what is What.SOURCE:
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
    """The parts that rows of NAMED_PARTS stand for."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    for row in rows.to_pylist():
        found[row.pop("dataset")].append(msgspec.convert(row, Part))
    return found


def provisional(address: str, name: str, parts: Iterable[Part]) -> Dataset:
    """Parts that are stored and not committed, to be read by who wrote them."""
    folder = parse(address)
    return Manifest.of(parts, DATASETS[name]).dataset(folder.child(folder.folder).path)


def _edges(children: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([children["parent"], children["source"]], schema=EDGES)
