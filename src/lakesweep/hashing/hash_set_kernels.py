"""The numba kernels of a hash table with open addressing.

A hash is stored in the slot that its low word selects, or in the next free slot after it. A slot of
two zeros is free; the one hash that is two zeros is stored as its neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.native import inlined, kernel

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inlined
def _find(table: Any, low: Any, high: Any) -> Any:
    """The place of a hash: where it is, or where it belongs."""
    mask = np.uint64(table.shape[0] - 1)
    place = low & mask
    while (table[place, 0] != low or table[place, 1] != high) and (
        table[place, 0] != _ZERO or table[place, 1] != _ZERO
    ):
        place = (place + _ONE) & mask
    return place


@inlined
def _stored(low: Any, high: Any) -> Any:
    return _ONE if low == _ZERO and high == _ZERO else high


@kernel
def add(table: Any, size: int, low: Any, high: Any, is_new: Any, done: int) -> tuple[int, int]:
    """Add hashes from `done` on, until all are in or the table is too full.

    Answers (hashes done, size of the set).
    """
    most = 2 * table.shape[0] // 3
    while done < len(low) and size < most:
        first, second = low[done], _stored(low[done], high[done])
        place = _find(table, first, second)
        is_new[done] = table[place, 0] == _ZERO and table[place, 1] == _ZERO
        table[place, 0], table[place, 1] = first, second
        size += is_new[done]
        done += 1
    return done, size


@kernel
def contains(table: Any, low: Any, high: Any, found: Any) -> None:
    """Tell of each hash whether it is in the table."""
    for i in range(len(low)):
        place = _find(table, low[i], _stored(low[i], high[i]))
        found[i] = table[place, 0] != _ZERO or table[place, 1] != _ZERO


@kernel
def move(table: Any, larger: Any) -> None:
    """Put every hash of a table into a larger one that is empty."""
    for i in range(table.shape[0]):
        low, high = table[i, 0], table[i, 1]
        if low != _ZERO or high != _ZERO:
            place = _find(larger, low, high)
            larger[place, 0], larger[place, 1] = low, high
