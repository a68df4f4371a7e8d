"""Few folders that hold many files.

What a table uses is remembered as a handful of folders, so that they can be left alone on the day
on which it cannot be read. A cover may be wider than what lies in it, never narrower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing.strings import string_buffers
from lakesweep.storage.address import identities

_STORE = re.compile(r"[^/]*://[^/]*/|/")


def cover(paths: pa.Array, most: int = 8) -> set[str]:
    """The identities of at most `most` folders a store that hold all paths; each ends in `/`."""
    return cover_runs(paths, [0, len(paths)], most)[0]


def cover_runs(
    paths: pa.Array, bounds: Sequence[int] | npt.NDArray[np.int64], most: int = 8
) -> list[set[str]]:
    """The same for each run of rows between neighbouring bounds."""
    names = identities(paths)
    runs: list[set[str]] = []
    places = np.array(bounds, dtype=np.int64)
    for folders, (first, end) in zip(_find(names, places, most), pairwise(places), strict=True):
        if all(map(_STORE.match, folders)):
            runs.append(set(folders))
        else:  # a folder that spans stores is none
            found = map(_STORE.match, names[first:end].to_pylist())
            runs.append({match[0] for match in found if match})
    return runs


def collapse(folders: Iterable[str], most: int) -> tuple[str, ...]:
    """At most `most` folders, or as many as there are stores, that hold all of these."""
    kept = _outermost(folders)
    depth = max((folder.count("/") for folder in kept), default=0)
    while len(kept) > most and depth > 1:
        depth -= 1
        kept = _outermost(_cut(folder, depth) for folder in kept)
    return tuple(kept)


def _find(paths: pa.Array, bounds: npt.NDArray[np.int64], most: int) -> Iterator[list[str]]:
    from lakesweep.storage.covering import find_folders  # imports numba

    characters, places = string_buffers(paths)
    row_of, size_of = np.zeros((2, len(bounds) - 1, most), dtype=np.int64)
    find_folders(characters, places, bounds, row_of, size_of)
    for rows, sizes in zip(places[row_of].tolist(), size_of.tolist(), strict=True):
        found = zip(rows, sizes, strict=True)
        yield [characters[row : row + n].tobytes().decode() for row, n in found if n >= 0]


def _cut(folder: str, depth: int) -> str:
    """The folder around a folder that has so many slashes, and is no wider than a store."""
    found = _STORE.match(folder)
    depth = max(depth, found[0].count("/") if found else 0)
    return folder if folder.count("/") <= depth else "/".join(folder.split("/")[:depth]) + "/"


def _outermost(folders: Iterable[str]) -> list[str]:
    """The folders that lie in no other, sorted."""
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not kept or not folder.startswith(kept[-1]):
            kept.append(folder)
    return kept
