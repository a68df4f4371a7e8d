"""Compiled kernels over paths: which names are ordinary, and which folders contain them.

Most files of a lake are data files with ordinary names. One pass finds these, so that the
patterns, which are many times slower, only see the rest.

Folders are in a hash table, which is looked up at each slash of a path. A binary search would
compare a path with many folders and miss the cache each time. Here a path is read once, eight
bytes at a time. At each slash the hash of what was read is looked up, if any folder has that
many slashes. A folder matches only if all its bytes are equal.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load32, load_word, trailing_zeros

#: The bytes of all folders, where each starts, the table, and which slash counts occur.
FolderTable: TypeAlias = tuple[Any, ...]
_SLASHES = np.uint64(0x2F2F2F2F2F2F2F2F)
_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_WORD_ZERO = np.uint64(0)


@inlined
def _word_at(p: Any, size: Any) -> Any:
    """The next eight bytes, zeros after the last of `size`."""
    if size >= 8:
        return load_word(p)
    word = _WORD_ZERO
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
    while slots[slot, 1] != _WORD_ZERO:
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
        state, place, depth = _WORD_ZERO, 0, 0
        while place < size:
            place, state = _next_slash(start, place, size, state)
            depth += 1
        depths[depth] = 1
        slot = state & mask
        while slots[slot, 1] != _WORD_ZERO:
            slot = (slot + _ONE) & mask
        slots[slot, 0], slots[slot, 1] = state, np.uint64(number + 1)


@kernel
def find_longest(folders: FolderTable, paths: Any, offsets: Any, found: Any) -> None:
    """The number of the longest folder that each path starts with, or -1."""
    depths = folders[3]
    for row in range(len(found)):
        path, size = address(paths) + offsets[row], offsets[row + 1] - offsets[row]
        state, place, best = _WORD_ZERO, 0, -1
        for depth in range(1, len(depths)):
            place, state = _next_slash(path, place, size, state)
            if place < 0:
                break
            if depths[depth]:
                number = _look_up(folders, state, path, place)
                best = number if number >= 0 else best
        found[row] = best


_SLASH = ord("/")
_DOT = ord(".")
_UNDERSCORE = ord("_")
_ZERO, _NINE = ord("0"), ord("9")


def _word(text: str) -> Any:
    return np.uint64(int.from_bytes(text.encode(), "little"))


def _half(text: str) -> int:
    return int.from_bytes(text.encode(), "little")


# How folders start that other formats, or running engines, use.
_FOLDERS = (
    *map(_half, ("buck", "mani", "snap", "chan", "sche", "inde")),
    *map(_half, ("stat", "cons", "serv", "copy", "tag/")),
)
# How file names start that are metadata in spite of their extension.
_METADATA = tuple(map(_half, ("snap", "stag")))
_PARTITION_STATISTICS = _word("partitio")
_DELETES = _word("-deletes")
_PARQUET = _word(".parquet")
_AVRO = _half("avro")
_ORC = _half(".orc")
_DASH_M = (ord("-"), ord("m"))


@inlined
def _is_odd_folder(p: Any, size: Any) -> Any:
    """Whether a folder name needs a closer look; its final slash belongs to it."""
    if size and load8(p) in (_DOT, _UNDERSCORE):
        return True
    return size >= 3 and load32(p) in _FOLDERS


@inlined
def _stem_size(p: Any, size: Any) -> Any:
    """The length before the extension of a data file, 0 for any other extension."""
    if size > 8 and load_word(p + size - 8) == _PARQUET:
        return size - 8
    if size > 5 and load32(p + size - 4) == _AVRO and load8(p + size - 5) == _DOT:
        return size - 5
    if size > 4 and load32(p + size - 4) == _ORC:
        return size - 4
    return 0


@inlined
def _ends_in_number_of_manifest(p: Any, size: Any) -> Any:
    """Whether a name ends in `-m` and digits."""
    digits = 0
    while digits < size and _ZERO <= load8(p + size - digits - 1) <= _NINE:
        digits += 1
    rest = size - digits
    return (
        digits > 0
        and rest >= 2
        and load8(p + rest - 2) == _DASH_M[0]
        and load8(p + rest - 1) == _DASH_M[1]
    )


@inlined
def _is_plain_name(p: Any, size: Any) -> Any:
    stem = _stem_size(p, size)
    if stem == 0 or load8(p) in (_DOT, _UNDERSCORE):
        return False
    if load32(p) in _METADATA:
        return False
    if stem >= 8 and (load_word(p) == _PARTITION_STATISTICS or load_word(p + stem - 8) == _DELETES):
        return False
    return not _ends_in_number_of_manifest(p, stem)


@kernel
def find_plain(data: Any, offsets: Any, plain: Any) -> None:
    """Whether each path is a data file, and no name in it suggests anything else."""
    for row in range(len(plain)):
        start, end = address(data) + offsets[row], address(data) + offsets[row + 1]
        place, is_odd = start, False
        while place < end and not is_odd:
            if load8(place) == _SLASH:
                is_odd = _is_odd_folder(start, place - start)
                start = place + 1
            place += 1
        plain[row] = not is_odd and _is_plain_name(start, end - start)


@kernel
def find_hidden(data: Any, offsets: Any, starts: Any, hidden: Any) -> None:
    """Whether a name after the start of each path begins with a dot or an underscore."""
    for row in range(len(hidden)):
        place, end = address(data) + offsets[row] + starts[row], address(data) + offsets[row + 1]
        is_first, hidden[row] = True, False
        while place < end and not hidden[row]:
            character = load8(place)
            hidden[row] = is_first and character in (_DOT, _UNDERSCORE)
            is_first = character == _SLASH
            place += 1
