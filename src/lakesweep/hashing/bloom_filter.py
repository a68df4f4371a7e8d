"""A Bloom filter over 128-bit hashes: no false negatives, few false positives.

Bits lie in blocks of 512, blocks in shards of at most 256 MB. A hash belongs to one shard, by its
low word alone, so rows can be sent to their shard before the filter is known. Its position in the
shard depends on the salt, so another run has other false positives.

Its false-positive rate is computed exactly. Keys fall into blocks at random: the number of keys in
a block has a Poisson distribution. i keys set i·k bits, some of them twice; the distribution of
distinct bits follows from throwing one after the other. A key that was never added passes if all
its k bits are set. The textbook formula ignores blocks and promises a rate two to four times too
low.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.strings import Hashes, readable

MOST_SHARD_BYTES = 256 * 1024 * 1024
BLOCK_BITS = 512
#: The false-positive rates that a filter can be built for.
MIN_FPP = 1e-9
MAX_FPP = 1e-2
MOST_FUNCTIONS = 28
_FEWEST_FUNCTIONS = 4
_MOST_KEYS = 160
Floats = npt.NDArray[np.float64]


def fpp_of(keys_per_block: float, functions: int) -> float:
    """The false-positive rate if blocks hold this many keys on average."""
    chances = _poisson(keys_per_block)
    # Blocks fuller than the table count as if every lookup were a false positive.
    return float(chances @ _errors()[functions]) + max(0.0, 1.0 - float(chances.sum()))


@cache
def fit(fpp: float) -> tuple[float, int]:
    """The most keys per block, and the number of functions that allows it."""
    if not MIN_FPP <= fpp <= MAX_FPP:
        raise ValueError(f"a false-positive rate lies between {MIN_FPP} and {MAX_FPP}")
    fitting = (
        (_most_keys(fpp, functions), functions)
        for functions in range(_FEWEST_FUNCTIONS, MOST_FUNCTIONS + 1)
    )
    return max(fitting)


def fpp_of_blocks(counts: npt.NDArray[np.int64], functions: int) -> float:
    """The rate of a filled filter; `counts[n]` is the number of blocks with n bits set."""
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    return float(counts @ shares**functions / counts.sum())


def distinct_of_blocks(counts: npt.NDArray[np.int64], functions: int) -> float:
    """How many distinct keys were added, estimated from the bits that are still zero."""
    blocks = int(counts.sum())
    zeros = float(counts @ np.arange(BLOCK_BITS, -1, -1)) / (blocks * BLOCK_BITS)
    if not zeros:
        return math.inf
    # The probability that one key leaves a given bit of its block zero is (1 - 1/512)^k.
    return -math.log(zeros) * blocks / (1 - (1 - 1 / BLOCK_BITS) ** functions)


def _most_keys(fpp: float, functions: int) -> float:
    low, high = 0.0, float(_MOST_KEYS) / 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fpp_of(middle, functions) <= fpp else (low, middle)
    return low


def _poisson(mean: float) -> Floats:
    keys = np.arange(_MOST_KEYS + 1)
    with np.errstate(divide="ignore"):
        logarithms = keys * np.log(mean) if mean else np.where(keys, -np.inf, 0.0)
    return np.exp(logarithms - mean - _log_factorials())


@cache
def _log_factorials() -> Floats:
    return np.array([math.lgamma(keys + 1) for keys in range(_MOST_KEYS + 1)])


@cache
def _errors() -> dict[int, Floats]:
    """For each number of functions, the rate in a block with 0, 1, 2… keys."""
    thrown = _distinct_bits()
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    return {
        functions: thrown[: _MOST_KEYS * functions + 1 : functions] @ shares**functions
        for functions in range(_FEWEST_FUNCTIONS, MOST_FUNCTIONS + 1)
    }


def _distinct_bits() -> Floats:
    """Row t: the distribution of the number of bits set after t throws."""
    shares = np.arange(BLOCK_BITS + 1) / BLOCK_BITS
    rows = np.zeros((_MOST_KEYS * MOST_FUNCTIONS + 1, BLOCK_BITS + 1))
    rows[0, 0] = 1.0
    for before, after in pairwise(rows):
        np.multiply(before, shares, out=after)
        after[1:] += before[:-1] * (1 - shares[:-1])
    return rows


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
