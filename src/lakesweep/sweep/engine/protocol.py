"""The interface of engines. Every engine runs the same steps and writes the same rows.

A task is given splits of datasets and returns a few short rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import pyarrow as pa

from lakesweep.decoding import typed_json
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_row_range

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener


Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
T = TypeVar("T")
#: `what` names the type of a document.
TASK_RESULTS = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
    ]
)


class MarkEngine(Protocol):
    """Runs steps over the rows of datasets."""

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        """Everything that a step yields, which is little, as rows of a schema.

        The rows are spread evenly over as many calls of the step as the engine likes, or at most
        `most_calls`, each row in one of them. A call may be repeated; the rows of only one of its
        runs count.
        """
        ...

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        """Write the pointers of one kind among CHILDREN, each file once, as a dataset of POINTERS.

        Files are identified by `h1`, `h2` and `location`, where null is a value like any other; the
        other columns are merged according to MERGED, ignoring nulls.
        """
        ...


class SweepEngine(MarkEngine, Protocol):
    """Runs the steps of a sweep. Only little data comes back to the caller."""

    @property
    def name(self) -> str:
        """The name of the engine in records."""
        ...

    @property
    def parts(self) -> int:
        """The best number of parts to split work into."""
        ...

    @property
    def slots(self) -> int:
        """How many parts run at once, as far as known."""
        ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        """Everything that a kernel yields for some items, each in a separate call."""
        ...

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """Everything that a step yields for listed files, each marked as live or not.

        `listing` has the columns of LISTING, and may have more. The step gets them as REFERENCED: a
        file is referenced if its hash is that of a live one.
        """
        ...

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """Everything that a step yields for live files (LIVE) whose hash no listed file has.

        All rows of one file go to the same call of the step.
        """
        ...

    def group(
        self, step: Step, rows: Sequence[Dataset], schema: pa.Schema, *, least_calls: int = 1
    ) -> pa.Table:
        """Everything that a step yields for datasets of one schema with `h1` and `h2`.

        All rows of one file go to the same call of the step. Engines with several calls make
        `least_calls` or more of them.
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
        """Everything that a step yields for listed files, each with its row of another dataset.

        `listing` has `h1` and `h2`, and may contain a file more than once; `said` has one row per
        file. Its named columns, none of which `listing` has, follow those of `listing`, null for
        files without a row.
        """
        ...


def task_result(what: str, documents: Iterable[Any]) -> pa.RecordBatch:
    """Documents as rows."""
    rows = [{"what": what, "document": msgspec.json.encode(one).decode()} for one in documents]
    return pa.RecordBatch.from_pylist(rows, schema=TASK_RESULTS)


def results_of(rows: pa.Table, what: str, kind: type[T]) -> Iterator[T]:
    """The documents of one type."""
    for row in rows.to_pylist():
        if row["what"] == what:
            yield typed_json(row["document"], kind)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows of one part, by position."""

    part: Part
    rows: range


RowSplit = tuple[RowRange, ...]


def split_rows(dataset: Dataset, shares: int) -> list[RowSplit]:
    """All rows in order, in at most this many shares of equal size, none empty."""
    count = min(shares, dataset.rows)
    edges = [number * dataset.rows // count for number in range(count + 1)] if count else []
    return [tuple(_row_ranges(dataset, first, last)) for first, last in pairwise(edges)]


def read_split(
    stores: StoreOpener, dataset: Dataset, share: RowSplit, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a share. The hash of each part is compared before the first row is returned."""
    for stretch in share:
        yield from read_row_range(stores, dataset, stretch.part, stretch.rows, columns)


def _row_ranges(dataset: Dataset, first: int, last: int) -> Iterator[RowRange]:
    place = 0
    for part in dataset.parts:
        rows = range(max(first - place, 0), min(last - place, part.rows))
        if rows:
            yield RowRange(part, rows)
        place += part.rows
