"""Checks of columns that foreign files name other files in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError

#: Far above what any store holds in one object, and so low that thousands of them can be added up.
LARGEST_OBJECT = 2**50


def check_paths(path: str, names: pa.Array) -> None:
    """Refuse paths that are null, empty, or no store can have; `path` is the file that names them.

    No store has keys with NUL characters, and calls of the system fail on them.
    """
    if names.null_count or (len(names) and pc.min(pc.binary_length(names)).as_py() == 0):
        raise DamagedError(path, "an entry has no file path")
    if _has_nul(names):
        raise DamagedError(path, "a file path has a NUL character")


def check_sizes(path: str, sizes: pa.Array) -> None:
    """Refuse sizes that are negative, or that no object has. They may be null."""
    found = pc.min_max(sizes).as_py()
    if (found["min"] or 0) < 0 or (found["max"] or 0) > LARGEST_OBJECT:
        raise DamagedError(path, "an entry has an impossible file size")


def _has_nul(names: pa.Array) -> bool:
    """Whether any byte is zero: over all bytes at once, at a fraction of a search in each path."""
    heap = names.buffers()[2]
    if heap is None or not len(names):
        return False
    characters = np.frombuffer(heap, dtype=np.uint8)
    offsets = np.frombuffer(names.buffers()[1], dtype=np.int32)
    first, end = offsets[names.offset], offsets[names.offset + len(names)]
    return bool(end > first and characters[first:end].min() == 0)
