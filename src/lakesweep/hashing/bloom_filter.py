"""A Bloom filter over 128-bit hashes: no false negatives, few false positives.

Bits lie in blocks of 512, blocks in shards of at most 256 MB. A hash belongs to one shard, by
its low word alone, so rows can be sent to their shard before the filter is known. Its position
in the shard depends on the salt, so another run has other false positives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.bloom_model import (
    BLOCK_BITS,
    MOST_FUNCTIONS,
    distinct_of_blocks,
    fit,
    fpp_of_blocks,
)
from lakesweep.hashing.strings import Hashes, readable

MOST_SHARD_BYTES = 256 * 1024 * 1024
_BLOCK_BYTES = BLOCK_BITS // 8
_BLOCK_WORDS = BLOCK_BITS // 64
_CACHE_LINE = 64
_WORD = 2**64

Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BloomShape:
    """The layout of a filter: `shards` of `blocks` each, `functions` bits per key.

    `capacity` is the number of distinct keys it is sized for; `salt` has 128 bits.
    """

    capacity: int
    shards: int
    blocks: int
    functions: int
    salt: int

    def __post_init__(self) -> None:
        if not 1 <= self.functions <= MOST_FUNCTIONS:
            raise ValueError(f"a filter has 1 to {MOST_FUNCTIONS} functions")
        if self.shards < 1 or not 1 <= self.blocks <= MOST_SHARD_BYTES // _BLOCK_BYTES:
            raise ValueError("a filter has at least one block and no shard above 256 MB")
        if not 0 <= self.salt < _WORD * _WORD:
            raise ValueError("a salt has 128 bits and no sign")

    @property
    def shard_bytes(self) -> int:
        """The bytes of one shard."""
        return self.blocks * _BLOCK_BYTES

    @property
    def bits(self) -> int:
        """The bits of all shards."""
        return self.shards * self.blocks * BLOCK_BITS

    @property
    def size_bytes(self) -> int:
        """The memory of all shards."""
        return self.bits // 8

    def shards_of(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """The shard of each hash: its low word's upper half, times `shards`, over 2³²."""
        from lakesweep.hashing.bloom_kernels import shards_of  # imports numba

        numbers = np.empty(len(hashes[0]), dtype=np.int32)
        shards_of(readable(hashes[0]), np.uint64(self.shards), numbers)
        return numbers


def shape_for(
    capacity: int, fpp: float, salt: int, *, shard_bytes: int = MOST_SHARD_BYTES
) -> BloomShape:
    """The smallest filter with at most this false-positive rate when it holds `capacity` keys."""
    keys_per_block, functions = fit(fpp)
    blocks = max(1, math.ceil(capacity / keys_per_block))
    shards = math.ceil(blocks * _BLOCK_BYTES / shard_bytes)
    return BloomShape(capacity, shards, math.ceil(blocks / shards), functions, salt)


@dataclass(frozen=True, slots=True)
class BloomFill:
    """How full a filter is: `counts[n]` blocks have n bits set."""

    functions: int
    counts: npt.NDArray[np.int64]

    def __add__(self, other: BloomFill) -> BloomFill:
        """The fill of both together, such as two shards of one filter."""
        return BloomFill(self.functions, self.counts + other.counts)

    @property
    def expected_fpp(self) -> float:
        """The false-positive rate, computed from the bits that are set."""
        return fpp_of_blocks(self.counts, self.functions)

    @property
    def distinct(self) -> float:
        """About how many distinct keys were added; infinite when all bits are set."""
        return distinct_of_blocks(self.counts, self.functions)


class BloomFilter:
    """Some shards of a filter; by default all of them.

    Adding is not thread-safe: let each thread build its own filter, then merge them.
    """

    def __init__(
        self, shape: BloomShape, shards: range | None = None, words: Words | None = None
    ) -> None:
        self.shape = shape
        self.shards = range(shape.shards) if shards is None else shards
        if self.shards.step != 1 or not 0 <= self.shards.start < self.shards.stop <= shape.shards:
            raise ValueError(f"{self.shards} are not adjacent shards of {shape.shards}")
        size = len(self.shards) * shape.blocks * _BLOCK_WORDS
        self._words = aligned_zeros(size) if words is None else words
        if len(self._words) != size:
            raise ValueError(f"{len(self._words)} words for shards of {size}")

    @property
    def words(self) -> Words:
        """The bits, shard by shard; read-only."""
        return readable(self._words)

    def add(self, hashes: Hashes) -> None:
        """Add hashes. ValueError if one belongs to another shard."""
        from lakesweep.hashing import bloom_kernels  # imports numba

        self._check_writable()
        low, high = map(readable, hashes)
        if not bloom_kernels.add(self._words, self._geometry(), self.shape.functions, low, high):
            raise self._wrong_shard()

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which hashes may have been added; never False for one that was. ValueError as above."""
        from lakesweep.hashing import bloom_kernels  # imports numba

        low, high = map(readable, hashes)
        found = np.empty(len(low), dtype=np.bool_)
        geometry = self._geometry()
        if not bloom_kernels.contains(self.words, geometry, self.shape.functions, low, high, found):
            raise self._wrong_shard()
        return found

    def merge(self, other: BloomFilter) -> None:
        """Add everything in another filter of the same shape and shards."""
        if (other.shape, other.shards) != (self.shape, self.shards):
            raise ValueError("filters of different shapes, salts or shards cannot be merged")
        self._check_writable()
        np.bitwise_or(self._words, other.words, out=self._words)

    def fill(self) -> BloomFill:
        """How full the filter is."""
        from lakesweep.hashing.bloom_kernels import count_blocks  # imports numba

        counts = np.zeros(BLOCK_BITS + 1, dtype=np.int64)
        count_blocks(self.words, counts)
        return BloomFill(self.shape.functions, counts)

    def _geometry(self) -> tuple[np.uint64, ...]:
        shape = self.shape
        numbers = (shape.shards, self.shards.start, len(self.shards), shape.blocks)
        return tuple(map(np.uint64, (*numbers, shape.salt % _WORD, shape.salt // _WORD)))

    def _check_writable(self) -> None:
        if not self._words.flags.writeable:
            raise ValueError("a loaded filter is read-only")

    def _wrong_shard(self) -> ValueError:
        return ValueError(f"a hash belongs to none of the shards {self.shards}")


def total_fill(fills: Iterable[BloomFill]) -> BloomFill:
    """The fill of a whole filter, from the fills of its shards."""
    return reduce(add, fills)


def aligned_zeros(size: int) -> Words:
    """Zeroed words aligned to a cache line, as blocks are."""
    memory = np.zeros(size + _CACHE_LINE // 8, dtype=np.uint64)
    start = -memory.ctypes.data % _CACHE_LINE // 8
    return memory[start : start + size]
