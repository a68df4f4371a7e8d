"""The many names of one local file.

A folder can be reached through a link, through `//` or through `..`. Names are compared as written
everywhere else; here they are resolved, for one purpose only: to see that a file which is to be
spared is one that is about to go under another name. Resolving may only ever spare.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing.strings import string_buffers


def resolve(identities: pa.Array) -> pa.Array:
    """Identities, those of local files with all links and detours in their folders resolved."""
    local = identities.filter(pc.starts_with(identities, "/"))
    if all(map(_is_real, _folders(local))):
        return identities
    return pa.array(map(resolve_one, identities.to_pylist()), pa.string())


def resolve_one(identity: str) -> str:
    """The same for one identity; a folder's ends in `/` and stays so."""
    if not identity.startswith("/"):
        return identity
    folder, _, name = identity.rpartition("/")
    return _real_folder(folder) + name


def link_targets(identities: pa.Array) -> pa.Array:
    """The files that local files lead to which are links themselves."""
    local = identities.filter(pc.starts_with(identities, "/")).to_pylist()
    return pa.array([os.path.realpath(path) for path in local if os.path.islink(path)], pa.string())


def find_links(folder: str) -> list[str]:
    """The names of links in a local folder that lead to folders, or nowhere."""
    try:
        with os.scandir("/" + folder) as entries:
            return [each.name for each in entries if each.is_symlink() and not each.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_lost_link(folder: str) -> str | None:
    """The path of the link, in the place of a local folder or above it, that leads nowhere."""
    path = "/" + folder.rstrip("/")
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return None if os.path.exists(path) else path


def find_lost_files(folder: str) -> list[str]:
    """The paths of links in a local folder that lead nowhere; editors lock files by hidden ones."""
    try:
        with os.scandir("/" + folder) as entries:
            links = [each for each in entries if each.is_symlink() and each.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(each.path for each in links if not os.path.exists(each.path))


def _is_real(folder: str) -> bool:
    return _real_folder(folder[:-1]) == folder


@lru_cache(maxsize=65_536)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder or "/").rstrip("/") + "/"


def _folders(paths: pa.Array) -> Iterator[str]:
    """The folders of a column, with a `/` at their end; each once a chunk."""
    for chunk in paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]:
        yield from _folders_of_chunk(chunk)


def _folders_of_chunk(paths: pa.Array) -> Iterator[str]:
    from lakesweep.storage.local.folders import find_folders  # imports numba

    if not len(paths):
        return
    characters, places = string_buffers(paths)
    first, size = np.empty((2, len(paths)), dtype=np.int64)
    count = find_folders(characters, places, first, size)
    for row, length in zip(first[:count].tolist(), size[:count].tolist(), strict=True):
        start = places[row]
        yield characters[start : start + length].tobytes().decode()
