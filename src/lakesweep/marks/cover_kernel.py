"""The numba kernel that finds a few folders which contain all paths of a column."""

from __future__ import annotations

from typing import Any

from lakesweep.native import address, inlined, kernel, load8

#: What is found of a folder.
ROW, SIZE, FILES, BYTES = range(4)

_SLASH = ord("/")


@inlined
def _folder_size(start: int, size: int) -> int:
    """The length of the folder of a path, with the slash at its end."""
    while size > 0 and load8(start + size - 1) != _SLASH:
        size -= 1
    return size


@inlined
def _common_size(one: int, other: int, size: int) -> int:
    """The length of the innermost folder that the first bytes of two texts share."""
    same = 0
    while same < size and load8(one + same) == load8(other + same):
        same += 1
    return _folder_size(one, same)


@inlined
def _component_end(start: int, size: int, position: int) -> int:
    """The end of the next component, after its slash; 0 if there is none."""
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
    """The length of the innermost folder that contains all paths of some rows."""
    whole = base + offsets[first]
    common = _folder_size(whole, offsets[first + 1] - offsets[first])
    for row in range(first + 1, end):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        common = _common_size(whole, start, min(common, size))
    return common


@inlined
def _find_groups(
    base: int, offsets: Any, sizes: Any, run: tuple[int, int], common: int, found: Any
) -> bool:
    """The innermost folders of a run, one for each component below the common folder.

    False if a path lies in the common folder itself, or if there are too many.
    """
    groups = 0
    for row in range(run[0], run[1]):
        start, size = base + offsets[row], offsets[row + 1] - offsets[row]
        behind = _component_end(start, size, common)
        if behind == 0:
            return False
        group = 0
        while group < groups:
            other = base + offsets[found[group, ROW]]
            if found[group, SIZE] >= behind and _equal(start, other, common, behind):
                shared = min(found[group, SIZE], size)
                found[group, SIZE] = _common_size(other, start, shared)
                break
            group += 1
        if group == groups:
            if groups == len(found):
                return False
            found[groups, ROW], found[groups, SIZE] = row, _folder_size(start, size)
            groups += 1
        found[group, FILES] += 1
        found[group, BYTES] += sizes[row]
    return True


@kernel
def find_folders(data: Any, offsets: Any, sizes: Any, bounds: Any, found: Any) -> None:
    """Find folders that hold all paths of each run of rows between neighbouring bounds.

    `found[run, n]`, which must be zero, gets the row whose path begins with folder `n`, the size of
    that folder in bytes, and how many files of how many bytes lie in it.
    """
    base = address(data)
    for run in range(len(bounds) - 1):
        first, end = bounds[run], bounds[run + 1]
        if first < end:
            common = _find_common(base, offsets, first, end)
            if not _find_groups(base, offsets, sizes, (first, end), common, found[run]):
                found[run, :, :] = 0
                found[run, 0, ROW], found[run, 0, SIZE] = first, common
                found[run, 0, FILES], found[run, 0, BYTES] = end - first, sizes[first:end].sum()
