"""Fill the shards of a Bloom filter in tasks, store them, and query them from other tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter, BloomShape
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.writer import new_part_name
from lakesweep.sweep.columns import Batches, hashes_of
from lakesweep.sweep.engine.tasks import task_result

if TYPE_CHECKING:
    from lakesweep.hashing import Hashes
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class BloomShards:
    """All shards of one filter."""

    shards: Sequence[BloomFilter]

    @classmethod
    def load(cls, stores: Stores, paths: Iterable[str]) -> BloomShards:
        """The filter whose shards are stored under these names."""
        return cls([read_bloom(stores, path) for path in paths])

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Query each shard for the hashes that belong to it."""
        low, high = hashes
        numbers = self.shards[0].shape.shards_of(hashes)
        known = np.ones(len(low), dtype=np.bool_)
        for bloom in self.shards:
            here = (numbers >= bloom.shards.start) & (numbers < bloom.shards.stop)
            known[here] = bloom.contains((low[here], high[here]))
        return known


def read_bloom(stores: Stores, path: str) -> BloomFilter:
    """A filter that is stored. It is our own, so the limits on foreign files do not apply."""
    place = parse(path)
    store = stores.open(place)
    size_bytes = store.head(place.key).size_bytes
    return load_bloom(path, store.read_range(place.key, 0, size_bytes))


@dataclass(frozen=True)
class FillStep:
    """Adds live files to a new filter, or one shard of it, and stores it in a folder."""

    stores: Stores
    folder: str
    shape: BloomShape
    shard: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        bloom = BloomFilter(self.shape, range(self.shard, self.shard + 1))
        for batch in batches:
            low, high = hashes_of(batch)
            here = self.shape.shards_of((low, high)) == self.shard
            bloom.add((low[here], high[here]))
        place = parse(f"{self.folder.rstrip('/')}/{new_part_name()}.bloom")
        self.stores.open(place).write(place.key, dump_bloom(bloom))
        yield task_result("filter", [place.path])
