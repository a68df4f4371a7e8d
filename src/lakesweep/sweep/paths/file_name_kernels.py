"""Compiled kernels that classify paths by the names in them.

Most files of a lake are data files with ordinary names. One pass finds these, so that the
patterns, which are many times slower, only see the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load32, load_word

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
