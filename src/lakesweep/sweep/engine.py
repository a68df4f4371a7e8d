"""Where a sweep runs: in this process, or on Spark. The steps and their results are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakesweep.hashing import HashSet
from lakesweep.storage.batches import gather
from lakesweep.storage.datasets import Dataset, read_dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.columns import HASHES, LISTING, hashes_of
from lakesweep.sweep.mark_engine import LocalMarkEngine, MarkEngine, Step
from lakesweep.sweep.steps import with_reference

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

#: So many listed files are held to be told what is said of them.
_PAIRED_ROWS = 1 << 20


class SweepEngine(MarkEngine, Protocol):
    """Runs the steps of a sweep. What comes back to the caller is little."""

    @property
    def name(self) -> str:
        """What the engine is called in records."""
        ...

    @property
    def parts(self) -> int:
        """Into how many parts work is best cut."""
        ...

    @property
    def slots(self) -> int:
        """How many parts are worked on at once, as far as is known by now."""
        ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        """All that a kernel yields for some items, each in a call of its own."""
        ...

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """All that a step yields for listed files, told of each whether it is live.

        `listing` has the columns of LISTING, and may have more. They come to the step as
        REFERENCED: a file is referenced if its hash is that of a live one.
        """
        ...

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """All that a step yields for live files (LIVE) whose hash no listed file has.

        All rows of one file come to the same call of the step.
        """
        ...

    def pair(
        self,
        step: Step,
        listing: Dataset,
        said: Dataset,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        """All that a step yields for listed files, each with what another dataset says of it.

        `listing` has `h1` and `h2`, and a file may be in it more than once; `said` has one row a
        file. Those of its columns that are named, none of which `listing` has, come to the step
        behind those of `listing`, null for files it says nothing of.
        """
        ...


@dataclass(frozen=True)
class LocalEngine(LocalMarkEngine):
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
        known = known_hashes(self.stores, live)
        files = read_dataset(self.stores, listing, LISTING.names)
        return pa.Table.from_batches(step(tell_referenced(files, known)), schema)

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        known = known_hashes(self.stores, listing)
        files = (
            batch.filter(pa.array(~known.contains(hashes_of(batch))))
            for batch in read_dataset(self.stores, live)
        )
        return pa.Table.from_batches(step(files), schema)

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
        files = gather(read_dataset(self.stores, listing), _PAIRED_ROWS)
        paired = (batch for some in files for batch in _pair(some, told))
        return pa.Table.from_batches(step(paired), schema)


def _pair(files: pa.RecordBatch, told: pa.Table) -> Iterator[pa.RecordBatch]:
    together = pa.Table.from_batches([files]).join(told, ["h1", "h2"], join_type="left outer")
    others = [name for name in told.column_names if name not in HASHES.names]
    yield from together.select([*files.schema.names, *others]).to_batches()


def known_hashes(stores: StoreOpener, files: Dataset) -> HashSet:
    """The hashes of all files of a dataset."""
    known = HashSet()
    for batch in read_dataset(stores, files, ["h1", "h2"]):
        known.add(hashes_of(batch))
    return known


def tell_referenced(files: Iterable[pa.RecordBatch], known: HashSet) -> Iterator[pa.RecordBatch]:
    """Listed files (LISTING) as REFERENCED."""
    for batch in files:
        yield with_reference(batch, pa.array(known.contains(hashes_of(batch))))
