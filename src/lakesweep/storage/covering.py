"""The kernel that finds folders which hold all paths of a column."""

from __future__ import annotations

from typing import Any

from lakesweep.native import address, inlined, kernel, load8

_SLASH = ord("/")


@inlined
def _folder_size(start: int, size: int) -> int:
    """The length of the folder of a path, with the slash at its end."""
    while size > 0 and load8(start + size - 1) != _SLASH:
        size -= 1
    return size


@inlined
def _common_size(one: int, other: int, size: int) -> int:
    """The length of the innermost folder that two texts share within their first bytes."""
    same = 0
    while same < size and load8(one + same) == load8(other + same):
        same += 1
    return _folder_size(one, same)


@inlined
def _component_end(start: int, size: int, position: int) -> int:
    """Where the next component ends, behind its slash; 0 if there is none."""
    while position < size:
        if load8(start + position) == _SLASH:
            return position + 1
        position += 1
    return 0


@inlined
def _equal(one: int, other: int, first: int, end: int) -> bool:
    while first < end and load8(one + first) == load8(other + first):
        first += 1
    return first == end


@kernel
def find_common(data: Any, offsets: Any) -> int:
    """The length of the innermost folder that holds all paths, as the first path writes it."""
    base = address(data)
    whole = base + offsets[0]
    common = _folder_size(whole, offsets[1] - offsets[0])
    for row in range(1, len(offsets) - 1):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        common = _common_size(whole, start, min(common, size))
    return common


@kernel
def find_groups(data: Any, offsets: Any, common: int, row_of: Any, size_of: Any) -> int:
    """The innermost folders that hold all paths, one for each component behind the common folder.

    They are the first `size_of` bytes of the path in `row_of`. Answers how many there are; 0 if a
    path lies in the common folder itself, or there are more than fit.
    """
    base = address(data)
    groups = 0
    for row in range(len(offsets) - 1):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        end = _component_end(start, size, common)
        if end == 0:
            return 0
        group = 0
        while group < groups:
            other = base + offsets[row_of[group]]
            if size_of[group] >= end and _equal(start, other, common, end):
                size_of[group] = _common_size(other, start, min(size_of[group], size))
                break
            group += 1
        if group == groups:
            if groups == len(row_of):
                return 0
            row_of[groups], size_of[groups] = row, _folder_size(start, size)
            groups += 1
    return groups
