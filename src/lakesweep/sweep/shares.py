"""Datasets cut into shares of rows, which tasks read by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.storage.datasets import Dataset, Part, read_stretch

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one part, by their places."""

    part: Part
    rows: range


Share = tuple[Stretch, ...]


def cut_rows(dataset: Dataset, shares: int) -> list[Share]:
    """All rows in order, in at most so many shares of the same size, of which none is empty."""
    count = min(shares, dataset.rows)
    edges = [number * dataset.rows // count for number in range(count + 1)] if count else []
    return [tuple(_stretches(dataset, first, last)) for first, last in pairwise(edges)]


def read_share(
    stores: StoreOpener, dataset: Dataset, share: Share, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a share. The hash of each part is compared before the first row comes."""
    for stretch in share:
        yield from read_stretch(stores, dataset, stretch.part, stretch.rows, columns)


def _stretches(dataset: Dataset, first: int, last: int) -> Iterator[Stretch]:
    place = 0
    for part in dataset.parts:
        rows = range(max(first - place, 0), min(last - place, part.rows))
        if rows:
            yield Stretch(part, rows)
        place += part.rows
