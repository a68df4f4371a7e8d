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


@inlined
def _find_common(base: int, offsets: Any, first: int, end: int) -> int:
    """The length of the innermost folder that holds all paths of some rows."""
    whole = base + offsets[first]
    common = _folder_size(whole, offsets[first + 1] - offsets[first])
    for row in range(first + 1, end):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        common = _common_size(whole, start, min(common, size))
    return common


@inlined
def _find_groups(
    base: int, offsets: Any, first: int, end: int, common: int, row_of: Any, size_of: Any
) -> int:
    """The innermost folders of some rows, one for each component behind the common folder.

    Answers how many; 0 if a path lies in the common folder itself, or if they are too many.
    """
    groups = 0
    for row in range(first, end):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        behind = _component_end(start, size, common)
        if behind == 0:
            return 0
        group = 0
        while group < groups:
            other = base + offsets[row_of[group]]
            if size_of[group] >= behind and _equal(start, other, common, behind):
                size_of[group] = _common_size(other, start, min(size_of[group], size))
                break
            group += 1
        if group == groups:
            if groups == len(row_of):
                return 0
            row_of[groups], size_of[groups] = row, _folder_size(start, size)
            groups += 1
    return groups


@kernel
def find_folders(data: Any, offsets: Any, bounds: Any, row_of: Any, size_of: Any) -> None:
    """Find folders that hold all paths of each run of rows between neighbouring bounds.

    The folders of run `i` are the first `size_of[i, n]` bytes of the paths in `row_of[i, n]`, as
    far as the sizes are not negative.
    """
    base = address(data)
    for run in range(len(bounds) - 1):
        first, end = bounds[run], bounds[run + 1]
        size_of[run, :] = -1
        if first == end:
            continue
        common = _find_common(base, offsets, first, end)
        groups = _find_groups(base, offsets, first, end, common, row_of[run], size_of[run])
        if groups == 0:
            row_of[run, 0], size_of[run, 0] = first, common
            groups = 1
        size_of[run, groups:] = -1
