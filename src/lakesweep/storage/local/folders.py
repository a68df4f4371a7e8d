"""The kernel that finds where a column of paths passes from one folder to the next."""

from __future__ import annotations

from typing import Any

from lakesweep.native import address, inlined, kernel, load8

_SLASH = ord("/")


@inlined
def _folder_size(start: int, end: int) -> int:
    while end > start and load8(end - 1) != _SLASH:
        end -= 1
    return end - start


@inlined
def _are_equal(one: int, other: int, size: int) -> bool:
    # From the end: neighbours differ there, if anywhere.
    while size > 0 and load8(one + size - 1) == load8(other + size - 1):
        size -= 1
    return size == 0


@kernel
def find_folders(data: Any, offsets: Any, first: Any, size: Any) -> int:
    """Find runs of rows whose paths lie in one folder.

    Puts the first row of each run into `first` and the length of its folder, with the slash, into
    `size`; answers how many runs there are.
    """
    base = address(data)
    runs = 0
    for row in range(len(offsets) - 1):
        start = base + offsets[row]
        length = _folder_size(start, base + offsets[row + 1])
        is_same = (
            runs > 0
            and length == size[runs - 1]
            and _are_equal(start, base + offsets[first[runs - 1]], length)
        )
        if not is_same:
            first[runs], size[runs] = row, length
            runs += 1
    return runs
