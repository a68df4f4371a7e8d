"""The numba kernels of a Bloom filter in blocks of 512 bits, one cache line.

A key sets all its bits in one block, so it costs one cache miss instead of one per bit. Keys
are processed in groups: all blocks of a group are prefetched before the first is needed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from lakesweep.native import address, count_ones, inlined, kernel, load_word, prefetch, store64

#: Shards in all, first shard held, shards held, blocks a shard, and the two words of the salt.
Geometry: TypeAlias = tuple[Any, ...]

WORDS = 8
BITS = 64 * WORDS

_GROUP = 32
# A position in a block has nine bits; a word of a hash holds seven of them.
_POSITION_BITS = np.uint64(9)
_POSITIONS = np.uint64(BITS - 1)
_IN_A_WORD = 7
_ONE = np.uint64(1)
_BIT = np.uint64(63)
_WORD = np.uint64(6)
_HALF = np.uint64(32)
_BLOCK_BYTES = np.uint64(BITS // 8)

# The finalizer of MurmurHash3 (Appleby).
_TURN = np.uint64(33)
_FACTOR_0 = np.uint64(0xFF51AFD7ED558CCD)
_FACTOR_1 = np.uint64(0xC4CEB9FE1A85EC53)


@inlined
def _signed(word: Any) -> Any:
    return np.int64(word)


@inlined
def _mix(word: Any) -> Any:
    word = (word ^ (word >> _TURN)) * _FACTOR_0
    word = (word ^ (word >> _TURN)) * _FACTOR_1
    return word ^ (word >> _TURN)


@inlined
def _scale(word: Any, count: Any) -> Any:
    """Spread words evenly over `count` numbers, by their upper halves."""
    return ((word >> _HALF) * count) >> _HALF


@inlined
def _find(geometry: Geometry, low: Any, high: Any, group: Any, k: int) -> Any:
    """Note where the block of a hash is, and its two mixed words; False in a shard not held."""
    shards, first, held, blocks, salt_low, salt_high = geometry
    shard = _scale(low, shards) - first
    if shard >= held:
        return False
    one, two = _mix(low ^ salt_low), _mix(high ^ salt_high)
    group[k, 0] = (shard * blocks + _scale(one, blocks)) * _BLOCK_BYTES
    group[k, 1], group[k, 2] = one, two
    return True


@inlined
def _load_group(
    words: Any, geometry: Geometry, low: Any, high: Any, start: int, size: int, group: Any
) -> Any:
    is_held = True
    for k in range(size):
        is_held &= _find(geometry, low[start + k], high[start + k], group, k)
        prefetch(words + _signed(group[k, 0]))
    return is_held


@inlined
def _set_bits(block: Any, one: Any, two: Any, functions: int) -> None:
    positions = two
    for i in range(functions):
        place = positions & _POSITIONS
        at = block + _signed(place >> _WORD) * 8
        store64(at, _signed(load_word(at) | (_ONE << (place & _BIT))))
        positions >>= _POSITION_BITS
        if i % _IN_A_WORD == _IN_A_WORD - 1:
            two = _mix(two + one)
            positions = two


@inlined
def _has_bits(block: Any, one: Any, two: Any, functions: int) -> Any:
    positions = two
    for i in range(functions):
        place = positions & _POSITIONS
        if not (load_word(block + _signed(place >> _WORD) * 8) >> (place & _BIT)) & _ONE:
            return False
        positions >>= _POSITION_BITS
        if i % _IN_A_WORD == _IN_A_WORD - 1:
            two = _mix(two + one)
            positions = two
    return True


@kernel
def add(words: Any, geometry: Geometry, functions: int, low: Any, high: Any) -> bool:
    """Add hashes; False, with some of them added, when one belongs to a shard that is not held."""
    base = address(words)
    group = np.zeros((_GROUP, 3), dtype=np.uint64)
    for start in range(0, len(low), _GROUP):
        size = min(_GROUP, len(low) - start)
        if not _load_group(base, geometry, low, high, start, size, group):
            return False
        for k in range(size):
            _set_bits(base + _signed(group[k, 0]), group[k, 1], group[k, 2], functions)
    return True


@kernel
def contains(
    words: Any, geometry: Geometry, functions: int, low: Any, high: Any, found: Any
) -> bool:
    """Tell of each hash whether it may have been added; False as for `add`."""
    base = address(words)
    group = np.zeros((_GROUP, 3), dtype=np.uint64)
    for start in range(0, len(low), _GROUP):
        size = min(_GROUP, len(low) - start)
        if not _load_group(base, geometry, low, high, start, size, group):
            return False
        for k in range(size):
            block = base + _signed(group[k, 0])
            found[start + k] = _has_bits(block, group[k, 1], group[k, 2], functions)
    return True


@kernel
def shards_of(low: Any, shards: Any, numbers: Any) -> None:
    """The shard of each hash, by its low word alone and without salt."""
    for i in range(len(low)):
        numbers[i] = _scale(low[i], shards)


@kernel
def count_blocks(words: Any, counts: Any) -> None:
    """Count the blocks that have no bit set, one bit, two, and so on."""
    for start in range(0, len(words), WORDS):
        ones = 0
        for i in range(WORDS):
            ones += count_ones(words[start + i])
        counts[ones] += 1
