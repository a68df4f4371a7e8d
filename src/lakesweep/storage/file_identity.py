"""Recognise a file under all its names: hashes of its identity with local links resolved.

A local folder can be reached through a link, `//` or `..`. Everywhere else names are compared
as written. Here they are resolved, for one purpose only: to notice that a file about to be
deleted is a referenced file under another name. Resolving can only ever keep files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, hash128
from lakesweep.hashing.strings import string_buffers
from lakesweep.storage.address import identities


def file_hashes(paths: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hashes of files by identity, with all local links resolved."""
    return hash128(resolve_aliases(identities(paths)))


def hash_columns(hashes: Hashes) -> tuple[pa.Array, pa.Array]:
    """Hashes as columns of signed integers, which both Arrow and Spark can join on."""
    low, high = hashes
    return pa.array(low.view(np.int64)), pa.array(high.view(np.int64))


def resolve_aliases(identities: pa.Array) -> pa.Array:
    """Identities; for local files, links and detours in the folder part are resolved."""
    local = identities.filter(pc.starts_with(identities, "/"))
    if all(map(_is_real, _folders(local))):
        return identities
    return pa.array(map(resolve_alias, identities.to_pylist()), pa.string())


def resolve_alias(identity: str) -> str:
    """The same for a single identity; a folder's keeps its final `/`."""
    if not identity.startswith("/"):
        return identity
    # Only the folder is resolved: a link to a file is an object of its own.
    folder, _, name = identity.rpartition("/")
    return _real_folder(folder) + name


def link_targets(identities: pa.Array) -> pa.Array:
    """The targets of those local files that are links themselves."""
    local = identities.filter(pc.starts_with(identities, "/")).to_pylist()
    return pa.array([os.path.realpath(path) for path in local if os.path.islink(path)], pa.string())


def _is_real(folder: str) -> bool:
    return _real_folder(folder[:-1]) == folder


@lru_cache(maxsize=65_536)
# Cached because a lake has far fewer folders than files, and each resolution is a system call.
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder or "/").rstrip("/") + "/"


def _folders(paths: pa.Array) -> Iterator[str]:
    """The distinct folders of a column, ending in `/`; a folder may recur across chunks."""
    for chunk in paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]:
        yield from _folders_of_chunk(chunk)


def _folders_of_chunk(paths: pa.Array) -> Iterator[str]:
    from lakesweep.storage.local.folder_kernel import find_folders  # imports numba

    if not len(paths):
        return
    characters, places = string_buffers(paths)
    first, size = np.empty((2, len(paths)), dtype=np.int64)
    count = find_folders(characters, places, first, size)
    for row, length in zip(first[:count].tolist(), size[:count].tolist(), strict=True):
        start = places[row]
        yield characters[start : start + length].tobytes().decode()
