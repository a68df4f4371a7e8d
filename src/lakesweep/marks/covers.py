"""Cover many files by a few folders.

The folders that a table uses are remembered, so that they can be kept if the table cannot be
read one day. A cover may be wider than the files in it, never narrower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing.strings import string_buffers
from lakesweep.storage.address import identities

_STORE = re.compile(r"[^/]*://[^/]*/|/")


class FolderUsage(NamedTuple):
    """A number of files, and their bytes as far as these are known."""

    files: int
    bytes: int


#: Folders by their identities, which end in `/`, with what lies in each.
Cover = Mapping[str, FolderUsage]


def cover(paths: pa.Array, sizes: pa.Array, bounds: Sequence[int], most: int = 8) -> list[Cover]:
    """Folders that contain all paths of each run of rows between neighbouring bounds.

    There are at most `most` per run and store.
    """
    names, amounts = identities(paths), sizes.fill_null(0).to_numpy()
    found = _find(names, amounts, bounds, most)
    for run, (first, end) in enumerate(pairwise(bounds)):
        if not all(map(_STORE.match, found[run])):  # a folder cannot span stores
            stores = (_store(name) for name in names[first:end].to_pylist())
            found[run] = add_covers(
                {store: FolderUsage(1, size)}
                for store, size in zip(stores, amounts[first:end].tolist(), strict=True)
            )
    return found


def add_covers(covers: Iterable[Cover]) -> dict[str, FolderUsage]:
    """The sum of several covers."""
    total: dict[str, FolderUsage] = {}
    for each in covers:
        for folder, (files, size_bytes) in each.items():
            before = total.get(folder, FolderUsage(0, 0))
            total[folder] = FolderUsage(before.files + files, before.bytes + size_bytes)
    return total


def collapse(folders: Iterable[str], most: int) -> tuple[str, ...]:
    """At most `most` folders, or one per store, that contain all of these; sorted."""
    kept = _outermost(folders)
    depth = max((folder.count("/") for folder in kept), default=0)
    while len(kept) > most and depth > 1:
        depth -= 1
        kept = _outermost(_cut(folder, depth) for folder in kept)
    return tuple(kept)


def collapse_cover(cover: Cover, most: int) -> Cover:
    """The same for a cover."""
    if len(cover) <= most:
        return cover
    outer = collapse(cover, most)
    places = np.searchsorted(np.array(outer, dtype=object), list(cover), side="right")
    return add_covers(
        {outer[place - 1]: amount} for place, amount in zip(places, cover.values(), strict=True)
    )


def _find(
    paths: pa.Array, sizes: npt.NDArray[np.int64], bounds: Sequence[int], most: int
) -> list[Cover]:
    from lakesweep.marks.cover_kernel import find_folders  # imports numba

    characters, places = string_buffers(paths)
    found = np.zeros((len(bounds) - 1, most, 4), dtype=np.int64)
    find_folders(characters, places, sizes, np.array(bounds, dtype=np.int64), found)
    covers: list[Cover] = []
    for folders in found.tolist():
        cover = {}
        for row, size, files, size_bytes in folders:
            if files:
                folder = characters[places[row] : places[row] + size].tobytes().decode()
                cover[folder] = FolderUsage(files, size_bytes)
        covers.append(cover)
    return covers


def _store(path: str) -> str:
    found = _STORE.match(path)
    return found[0] if found else ""


def _cut(folder: str, depth: int) -> str:
    """The ancestor of a folder that has `depth` slashes, or the store."""
    depth = max(depth, _store(folder).count("/"))
    return folder if folder.count("/") <= depth else "/".join(folder.split("/")[:depth]) + "/"


def _outermost(folders: Iterable[str]) -> list[str]:
    """The folders that are inside no other one, sorted."""
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not kept or not folder.startswith(kept[-1]):
            kept.append(folder)
    return kept
