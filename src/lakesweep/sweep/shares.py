"""Datasets cut into shares of rows, which tasks read by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.storage.datasets import Dataset, Part, read_part

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of one part, from `start` to before `stop`."""

    part: Part
    start: int
    stop: int


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
        place = 0
        for batch in read_part(stores, dataset, stretch.part, columns):
            first, last = max(stretch.start - place, 0), min(stretch.stop - place, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            place += batch.num_rows
            if place >= stretch.stop:
                break


def _stretches(dataset: Dataset, first: int, last: int) -> Iterator[Stretch]:
    place = 0
    for part in dataset.parts:
        start, stop = max(first - place, 0), min(last - place, part.rows)
        if start < stop:
            yield Stretch(part, start, stop)
        place += part.rows
