"""Pointers: files that are to be read next, and what is expected of each.

Several sources may point to one file. It is read once, and held to the strictest of their
expectations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.marks.columns import CHILDREN, POINTERS, source_numbers
from lakesweep.storage.address import identities
from lakesweep.storage.file_identity import file_hashes, hash_columns

#: What tells files apart.
_FILE = ["h1", "h2", "location"]

#: How the other columns of several pointers to one file are merged: the file is checked as strictly
#: as any of them asks.
MERGED = {
    "source": "min",
    "path": "min",
    "kind": "min",
    "size_bytes": "max",
    "entries": "max",
    "access": "min",
}


class Pointer(NamedTuple):
    """A row of POINTERS."""

    source: int
    h1: int
    h2: int
    path: str
    kind: str
    size_bytes: int | None
    entries: int | None
    location: str | None
    access: int


def pointer_to(path: str, kind: str) -> Pointer:
    """A file that nothing is known of but its path."""
    hashes = file_hashes(pa.array([path]))
    h1, h2 = (column[0].as_py() for column in hash_columns(hashes))
    (source,) = source_numbers(hashes).to_pylist()
    return Pointer(source, h1, h2, path, kind, None, None, None, 0)


def pointers_of(batch: pa.RecordBatch | pa.Table) -> Iterator[Pointer]:
    """The rows of POINTERS in a batch."""
    columns = (batch[name].to_pylist() for name in Pointer._fields)
    return map(Pointer._make, zip(*columns, strict=True))


def children_of(
    parent: Pointer,
    kind: str,
    paths: pa.Array,
    size_bytes: pa.Array,
    entries: pa.Array,
    location: str | None,
    *,
    versions: pa.Array | None = None,
) -> pa.RecordBatch:
    """What a source leads to, as CHILDREN: files of one kind with one location.

    `versions` distinguish files that are rewritten under the same name.
    """
    count = len(paths)
    columns = [
        pa.repeat(pa.scalar(parent.source, pa.int64()), count),
        numbers_of(paths, location if versions is None else versions),
        *hash_columns(file_hashes(paths)),
        paths,
        pa.repeat(pa.scalar(str(kind), pa.string()), count),
        size_bytes,
        entries,
        pa.repeat(pa.scalar(location, pa.string()), count),
        pa.repeat(pa.scalar(parent.access, pa.int64()), count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHILDREN)


def numbers_of(paths: pa.Array, by: pa.Array | str | None) -> pa.Array:
    """The numbers of sources. A file with two locations, or versions, is two sources."""
    if by is None:
        return source_numbers(file_hashes(paths))
    return source_numbers(hash128(pc.binary_join_element_wise(identities(paths), by, "\n")))


def merge_pointers(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Each file once: told apart by `h1`, `h2` and `location`, the rest merged as in MERGED."""
    table = pa.Table.from_batches(batches, POINTERS)
    merged = table.group_by(_FILE, use_threads=False).aggregate(list(MERGED.items()))
    columns = [
        merged[name if name in _FILE else f"{name}_{MERGED[name]}"] for name in POINTERS.names
    ]
    return pa.Table.from_arrays(columns, schema=POINTERS)


class DistinctPointers:
    """Collects pointers of one kind. Repeated rows are dropped at once, to keep memory flat."""

    def __init__(self) -> None:
        self._seen = HashSet()
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of POINTERS."""
        new = batch.filter(pa.array(self._seen.add(_row_hashes(batch))))
        if new.num_rows:
            self._batches.append(new)

    def merge(self) -> pa.Table:
        """Each file once."""
        return merge_pointers(self._batches)


def _row_hashes(batch: pa.RecordBatch) -> Hashes:
    """Hashes over whole rows, made of those that the rows carry."""
    low, high = (batch[name].to_numpy().view(np.uint64) for name in ("h1", "h2"))
    text = pc.binary_join_element_wise(batch["path"], pc.fill_null(batch["location"], ""), "\n")
    path_low, path_high = hash128(text)
    low, high = low ^ path_low, high ^ path_high
    for factor, name in enumerate(("size_bytes", "entries", "access"), start=1):
        numbers = pc.fill_null(batch[name], -1).to_numpy().view(np.uint64)
        low += numbers * np.uint64(0x9E3779B97F4A7C15 + 2 * factor)
    return low, high
