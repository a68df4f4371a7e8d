"""The numba kernel that finds the distinct folders of a column of paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load_word

_SLASH = ord("/")
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@inlined
def _folder_size(start: int, end: int) -> int:
    while end > start and load8(end - 1) != _SLASH:
        end -= 1
    return end - start


@inlined
def _slot(start: int, size: int) -> Any:
    """A hash of a folder's name."""
    mixed = np.uint64(size)
    for place in range(0, size - 7, 8):
        mixed = (mixed ^ load_word(start + place)) * _ODD
        mixed ^= mixed >> np.uint64(29)
    if size >= 8:
        mixed = (mixed ^ load_word(start + size - 8)) * _ODD
    else:
        for place in range(size):
            mixed = (mixed ^ np.uint64(load8(start + place))) * _ODD
    return np.int64((mixed * _ODD) >> _SHIFT)


@inlined
def _are_equal(one: int, other: int, size: int) -> bool:
    # From the end, where names that differ usually do.
    while size > 0 and load8(one + size - 1) == load8(other + size - 1):
        size -= 1
    return size == 0


@kernel
def find_folders(data: Any, offsets: Any, first: Any, size: Any) -> int:
    """Find the distinct folders of a column of paths.

    For each folder, puts the first row in it into `first` and the length of its name, with the
    final slash, into `size`; returns the number of folders.
    """
    base = address(data)
    rows = len(offsets) - 1
    count = 2
    while count < 2 * rows:
        count *= 2
    slots = np.full(count, -1, dtype=np.int32)
    found = 0
    for row in range(rows):
        start = base + offsets[row]
        length = _folder_size(start, base + offsets[row + 1])
        slot = _slot(start, length) & (count - 1)
        while slots[slot] >= 0:
            known = slots[slot]
            if size[known] == length and _are_equal(start, base + offsets[first[known]], length):
                break
            slot = (slot + 1) & (count - 1)
        else:
            first[found], size[found] = row, length
            slots[slot] = found
            found += 1
    return found
