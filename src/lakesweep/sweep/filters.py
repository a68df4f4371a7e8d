"""Stored Bloom filters, or the shards of one, as a task asks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.bloom_file import load_bloom
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.hashing import Hashes
    from lakesweep.hashing.bloom import BloomFilter
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class Filters:
    """All shards of one filter."""

    shards: Sequence[BloomFilter]

    @classmethod
    def load(cls, stores: Stores, paths: Iterable[str]) -> Filters:
        """The filter whose shards are stored under these names."""
        return cls([_load(stores, path) for path in paths])

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Ask each shard for the hashes that belong to it."""
        low, high = hashes
        numbers = self.shards[0].shape.shards_of(hashes)
        known = np.ones(len(low), dtype=np.bool_)
        for bloom in self.shards:
            here = (numbers >= bloom.shards.start) & (numbers < bloom.shards.stop)
            known[here] = bloom.contains((low[here], high[here]))
        return known


def _load(stores: Stores, path: str) -> BloomFilter:
    place = parse(path)
    return load_bloom(path, stores.open(place).read(place.key))
