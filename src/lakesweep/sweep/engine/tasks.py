"""What tasks are given and what they return: splits of datasets in, a few short rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_row_range

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

T = TypeVar("T")

#: `what` names the type of a document.
TASK_RESULTS = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
    ]
)


def task_result(what: str, documents: Iterable[Any]) -> pa.RecordBatch:
    """Documents as rows."""
    rows = [{"what": what, "document": msgspec.json.encode(one).decode()} for one in documents]
    return pa.RecordBatch.from_pylist(rows, schema=TASK_RESULTS)


def results_of(rows: pa.Table, what: str, kind: type[T]) -> Iterator[T]:
    """The documents of one type."""
    for row in rows.to_pylist():
        if row["what"] == what:
            yield msgspec.json.decode(row["document"], type=kind)


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
