"""Where the steps of marking run. The same steps run on every engine, and write the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.storage.datasets import Dataset, read_dataset, write_dataset
from lakesweep.storage.marks import POINTERS
from lakesweep.sweep.columns import hashes_of

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Which of several pointers to one file is followed, column by column: what is said of the file is
#: checked as strictly as any of them says.
MERGED = {
    "source": "min",
    "path": "min",
    "kind": "min",
    "size_bytes": "max",
    "entries": "max",
    "access": "min",
}
_FILE = ["h1", "h2", "location"]


class MarkEngine(Protocol):
    """Runs steps over the rows of datasets."""

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        """All that a step yields, which is little, as rows of a schema.

        The rows are spread evenly over as many calls of the step as the engine likes, or at most as
        many as are told, each row in one of them. A call may be repeated; the rows of one of its
        runs count.
        """
        ...

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        """Write the pointers of one kind among CHILDREN, each file once, as a dataset of POINTERS.

        Files are told apart by `h1`, `h2` and `location`, where null is a value as any other; the
        other columns are merged as MERGED says, without nulls.
        """
        ...


@dataclass(frozen=True)
class LocalMarkEngine:
    """Runs everything in this process: no Spark, no Java."""

    stores: StoreOpener

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        del most_calls  # there is one
        return pa.Table.from_batches(step(read_dataset(self.stores, rows)), schema)

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        found = (batch for dataset in children for batch in self._of_kind(dataset, kind))
        pointers = merge_pointers(_without_repeats(found))
        return write_dataset(self.stores, address, POINTERS, pointers.to_batches())

    def _of_kind(self, children: Dataset, kind: str) -> Iterator[pa.RecordBatch]:
        wanted = pc.field("kind") == kind
        return read_dataset(self.stores, children, POINTERS.names, wanted)


def merge_pointers(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Each file once, as `MarkEngine.distinct` says."""
    table = pa.Table.from_batches(batches, POINTERS)
    merged = table.group_by(_FILE, use_threads=False).aggregate(list(MERGED.items()))
    columns = [
        merged[name if name in _FILE else f"{name}_{MERGED[name]}"] for name in POINTERS.names
    ]
    return pa.Table.from_arrays(columns, schema=POINTERS)


def _without_repeats(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that are not the same in every column as an earlier one."""
    seen = HashSet()
    for batch in batches:
        yield batch.filter(pa.array(seen.add(_row_hashes(batch))))


def _row_hashes(batch: pa.RecordBatch) -> Hashes:
    """Hashes over whole rows, made of those that the rows carry."""
    low, high = hashes_of(batch)
    text = pc.binary_join_element_wise(batch["path"], pc.fill_null(batch["location"], ""), "\n")
    path_low, path_high = hash128(text)
    low, high = low ^ path_low, high ^ path_high
    for factor, name in enumerate(("size_bytes", "entries", "access"), start=1):
        numbers = pc.fill_null(batch[name], -1).to_numpy().view(np.uint64)
        low += numbers * np.uint64(0x9E3779B97F4A7C15 + 2 * factor)
    return low, high
