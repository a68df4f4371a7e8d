"""Run the steps of a sweep in this process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import HashSet
from lakesweep.marks.columns import POINTERS
from lakesweep.marks.pointers import DistinctPointers
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.file_batches import coalesce_batches
from lakesweep.storage.stores import Stores
from lakesweep.sweep.columns import HASHES, LISTING, hashes_of, with_reference
from lakesweep.sweep.engine.protocol import Step

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

#: The number of listed files held in memory to be paired with other rows.
_PAIRED_ROWS = 1 << 20


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
        pointers = DistinctPointers()
        for dataset in children:
            for batch in self._of_kind(dataset, kind):
                pointers.add(batch)
        return write_dataset(self.stores, address, POINTERS, pointers.merge().to_batches())

    def _of_kind(self, children: Dataset, kind: str) -> Iterator[pa.RecordBatch]:
        wanted = pc.field("kind") == kind
        return read_dataset(self.stores, children, POINTERS.names, wanted)


@dataclass(frozen=True)
class LocalSweepEngine(LocalMarkEngine):
    """Everything in this process. It holds 24 to 48 bytes for each live or each listed file."""

    stores: Stores
    name: str = "local"
    parts: int = 1
    slots: int = 1

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        batches = (batch for item in items for batch in kernel(item))
        return pa.Table.from_batches(batches, schema)

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        known = load_hashes(self.stores, live)
        files = read_dataset(self.stores, listing, LISTING.names)
        return pa.Table.from_batches(step(mark_referenced(files, known)), schema)

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        known = load_hashes(self.stores, listing)
        files = (
            batch.filter(pa.array(~known.contains(hashes_of(batch))))
            for batch in read_dataset(self.stores, live)
        )
        return pa.Table.from_batches(step(files), schema)

    def group(
        self, step: Step, rows: Sequence[Dataset], schema: pa.Schema, *, least_calls: int = 1
    ) -> pa.Table:
        del least_calls  # there is one
        batches = (batch for each in rows for batch in read_dataset(self.stores, each))
        return pa.Table.from_batches(step(batches), schema)

    def pair(
        self,
        step: Step,
        listing: Dataset,
        said: Dataset,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        names = [*HASHES.names, *columns]
        told = pa.Table.from_batches(
            read_dataset(self.stores, said, names),
            pa.schema([said.schema.field(name) for name in names]),
        )
        files = coalesce_batches(read_dataset(self.stores, listing), _PAIRED_ROWS)
        paired = (batch for some in files for batch in _pair(some, told))
        return pa.Table.from_batches(step(paired), schema)


def _pair(files: pa.RecordBatch, told: pa.Table) -> Iterator[pa.RecordBatch]:
    # A left join: files without a row on the other side stay, with nulls. Only their places are
    # joined, because a join cannot carry lists.
    places = pa.table([files["h1"], files["h2"], np.arange(files.num_rows)], [*HASHES.names, "row"])
    together = places.join(told, HASHES.names, join_type="left outer").combine_chunks()
    rows = pa.Table.from_batches([files]).take(together["row"])
    for name in (name for name in told.column_names if name not in HASHES.names):
        rows = rows.append_column(told.schema.field(name), together[name])
    yield from rows.to_batches()


def load_hashes(stores: StoreOpener, files: Dataset) -> HashSet:
    """The hashes of all files of a dataset."""
    known = HashSet()
    for batch in read_dataset(stores, files, ["h1", "h2"]):
        known.add(hashes_of(batch))
    return known


def mark_referenced(files: Iterable[pa.RecordBatch], known: HashSet) -> Iterator[pa.RecordBatch]:
    """Listed files (LISTING) as REFERENCED."""
    for batch in files:
        yield with_reference(batch, pa.array(known.contains(hashes_of(batch))))
