"""How far the clock here is ahead of those of stores, by which the age of files is told.

Grace periods and days of policies are counted back from our clock. One that is ahead makes all that
is stored look older than it is. What a store says of a file that was just written tells its time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.datasets import Dataset
    from lakesweep.storage.store import StoreOpener


def ahead_of(since: datetime, written: datetime | None) -> timedelta:
    """By how much a moment of our clock is ahead of a store that wrote something after it."""
    return timedelta() if written is None else max(since - written, timedelta())


def ahead_of_dataset(stores: StoreOpener, dataset: Dataset, since: datetime) -> timedelta:
    """The same, by a dataset that was written since."""
    if not dataset.parts:
        return timedelta()
    place = parse(dataset.address + dataset.parts[0].name)
    return ahead_of(since, stores.open(place).head(place.key).modified)
