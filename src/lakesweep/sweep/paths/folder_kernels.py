"""Compiled kernels of a hash table of folders, looked up at each slash of a path.

A binary search would compare a path with many folders and miss the cache each time. Here a
path is read once, eight bytes at a time. At each slash the hash of what was read is looked
up, if any folder has that many slashes. A folder matches only if all its bytes are equal.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load_word, trailing_zeros

#: The bytes of all folders, where each starts, the table, and which slash counts occur.
FolderTable: TypeAlias = tuple[Any, ...]

_SLASH = ord("/")
_SLASHES = np.uint64(0x2F2F2F2F2F2F2F2F)
_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@inlined
def _word_at(p: Any, size: Any) -> Any:
    """The next eight bytes, zeros after the last of `size`."""
    if size >= 8:
        return load_word(p)
    word = _ZERO
    for i in range(size):
        word |= np.uint64(load8(p + i)) << np.uint64(8 * i)
    return word


@inlined
def _first_slash(word: Any) -> Any:
    """Which byte of a word is its first slash; 8 if there is none."""
    other = word ^ _SLASHES
    return trailing_zeros((other - _ONES) & ~other & _TOPS) // 8


@inlined
def _stir(state: Any, word: Any) -> Any:
    state = (state ^ word) * _FACTOR
    return state ^ (state >> _HALF)


@inlined
def _next_slash(p: Any, place: Any, size: Any, state: Any) -> Any:
    """The position after the next slash, and the hash up to there; (-1, …) if there is none."""
    while place < size:
        word = _word_at(p + place, size - place)
        slash = _first_slash(word)
        if slash < 8:
            kept = word & (_ALL >> np.uint64(8 * (7 - slash)))
            return place + slash + 1, _stir(state, kept)
        state = _stir(state, word)
        place += 8
    return -1, state


@inlined
def _are_equal(one: Any, two: Any, size: Any) -> Any:
    place = 0
    while place + 8 <= size and load_word(one + place) == load_word(two + place):
        place += 8
    while place < size and load8(one + place) == load8(two + place):
        place += 1
    return place == size


@inlined
def _look_up(folders: FolderTable, state: Any, path: Any, size: Any) -> Any:
    """The number of the folder with exactly these bytes, or -1."""
    data, ends, slots, _ = folders
    mask = np.uint64(len(slots) - 1)
    slot = state & mask
    while slots[slot, 1] != _ZERO:
        if slots[slot, 0] == state:
            number = np.int64(slots[slot, 1] - _ONE)
            start, end = ends[number], ends[number + 1]
            if end - start == size and _are_equal(address(data) + start, path, size):
                return number
        slot = (slot + _ONE) & mask
    return -1


@kernel
def fill_table(folders: FolderTable) -> None:
    """Put all folders into an empty table that has room for more than these."""
    data, ends, slots, depths = folders
    mask = np.uint64(len(slots) - 1)
    for number in range(len(ends) - 1):
        start, size = address(data) + ends[number], ends[number + 1] - ends[number]
        state, place, depth = _ZERO, 0, 0
        while place < size:
            place, state = _next_slash(start, place, size, state)
            depth += 1
        depths[depth] = 1
        slot = state & mask
        while slots[slot, 1] != _ZERO:
            slot = (slot + _ONE) & mask
        slots[slot, 0], slots[slot, 1] = state, np.uint64(number + 1)


@kernel
def find_longest(folders: FolderTable, paths: Any, offsets: Any, found: Any) -> None:
    """The number of the longest folder that each path starts with, or -1."""
    depths = folders[3]
    for row in range(len(found)):
        path, size = address(paths) + offsets[row], offsets[row + 1] - offsets[row]
        state, place, best = _ZERO, 0, -1
        for depth in range(1, len(depths)):
            place, state = _next_slash(path, place, size, state)
            if place < 0:
                break
            if depths[depth]:
                number = _look_up(folders, state, path, place)
                best = number if number >= 0 else best
        found[row] = best
