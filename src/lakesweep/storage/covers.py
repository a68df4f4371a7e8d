"""Few folders that hold many files.

What a table uses is remembered as a handful of folders, so that they can be left alone on the day
on which it cannot be read. A cover may be wider than what lies in it, never narrower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lakesweep.storage.address import identities

_STORE = re.compile(r"[^/]*://[^/]*/|/")


def cover(paths: pa.Array, most: int = 8) -> set[str]:
    """The identities of at most `most` folders a store that hold all paths; each ends in `/`."""
    if not len(paths):
        return set()
    names = identities(paths)
    return {folder for found in _folders(names, most) for folder in _in_stores(found, names)}


def collapse(folders: Iterable[str], most: int) -> tuple[str, ...]:
    """At most `most` folders, or as many as there are stores, that hold all of these."""
    kept = _outermost(folders)
    depth = max((folder.count("/") for folder in kept), default=0)
    while len(kept) > most and depth > 1:
        depth -= 1
        kept = _outermost(_cut(folder, depth) for folder in kept)
    return tuple(kept)


def _folders(paths: pa.Array, most: int) -> Iterator[str]:
    from lakesweep.storage import covering  # imports numba

    strings = paths.cast(pa.large_string())
    _, offsets, data = strings.buffers()
    places = np.frombuffer(memoryview(offsets).toreadonly(), dtype=np.int64)
    places = places[strings.offset : strings.offset + len(strings) + 1]
    characters = np.frombuffer(memoryview(data or b"").toreadonly(), dtype=np.uint8)
    common = covering.find_common(characters, places)
    row_of, size_of = np.zeros((2, most), dtype=np.int64)
    groups = covering.find_groups(characters, places, common, row_of, size_of)
    if not groups:
        row_of[0], size_of[0] = 0, common
    for row, size in zip(row_of[: groups or 1], size_of[: groups or 1], strict=True):
        yield characters[places[row] : places[row] + size].tobytes().decode()


def _in_stores(folder: str, paths: pa.Array) -> Iterable[str]:
    """The folder; or, if it spans stores, all of those that the paths name."""
    if _STORE.match(folder):
        return (folder,)
    found = (_STORE.match(path) for path in paths.to_pylist())
    return {match[0] for match in found if match}


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
