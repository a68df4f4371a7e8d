"""Fill the shards of a Bloom filter in tasks, store them, and query them from other tasks.

Shards lie in the folder of a plan, where others may be able to write. A filter that lost bits
would take live files for dead ones. So the driver holds the hash of each stored shard, and every
reader compares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import DamagedError
from lakesweep.hashing.bloom_file import bloom_checksum, dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter, BloomShape
from lakesweep.storage.address import Address, parse
from lakesweep.storage.datasets.writer import new_part_name
from lakesweep.sweep.columns import Batches, hashes_of
from lakesweep.sweep.engine.protocol import task_result

if TYPE_CHECKING:
    from lakesweep.hashing import Hashes
    from lakesweep.storage.stores import Stores


class StoredShard(msgspec.Struct, frozen=True):
    """A stored shard: its address and its checksum."""

    path: str
    sha256: str


@dataclass(frozen=True)
class BloomShards:
    """All shards of one filter."""

    shards: Sequence[BloomFilter]

    @classmethod
    def load(cls, stores: Stores, shards: Iterable[StoredShard]) -> BloomShards:
        """The filter of these stored shards."""
        return cls([read_shard(stores, shard) for shard in shards])

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Query each shard for the hashes that belong to it."""
        low, high = hashes
        numbers = self.shards[0].shape.shards_of(hashes)
        known = np.ones(len(low), dtype=np.bool_)
        for bloom in self.shards:
            here = (numbers >= bloom.shards.start) & (numbers < bloom.shards.stop)
            known[here] = bloom.contains((low[here], high[here]))
        return known


def read_shard(stores: Stores, shard: StoredShard) -> BloomFilter:
    """A stored shard; DamagedError if it is not what was stored.

    It is our own, so the limits on foreign files do not apply.
    """
    place = parse(shard.path)
    store = stores.open(place)
    size_bytes = store.head(place.key).size_bytes
    data = store.read_range(place.key, 0, size_bytes)
    if bloom_checksum(data) != shard.sha256:
        raise DamagedError(shard.path, "this part of a Bloom filter has the wrong SHA-256")
    return load_bloom(shard.path, data)


def store_shard(stores: Stores, place: Address, bloom: BloomFilter) -> StoredShard:
    """Store a shard at an address."""
    data = dump_bloom(bloom)
    stores.open(place).write(place.key, data)
    return StoredShard(place.path, bloom_checksum(data))


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
        yield task_result("filter", [store_shard(self.stores, place, bloom)])
