"""Merge small manifests into fewer, larger ones.

As in Paimon there are two ways. A minor merge joins neighbours up to the table's target size.
A full merge, taken if there is much to gain, also lets each DELETE cancel its ADD. A DELETE
whose ADD is in none of the merged manifests stays: it still hides a file of an older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.paimon.commit.manifest_rows import (
    ManifestWriter,
    read_entry_rows,
    read_row_entries,
    row_identity,
)
from lakesweep.paimon.manifests.entries import ADD, DELETE
from lakesweep.paimon.manifests.row_formats import Row, RowFormat, widest
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.table import PaimonBranch

_WORKERS = 8
#: A commit reads and writes at most this much to merge; the next commit continues.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MergeSizes:
    """When manifests count as small, and when there are enough of them to merge."""

    target_bytes: int
    least_count: int
    full_bytes: int

    @classmethod
    def of(cls, options: Options) -> Self:
        """The sizes of the table's options."""
        return cls(
            options.size_bytes("manifest.target-file-size", 8 << 20),
            options.integer("manifest.merge-min-count", 30),
            options.size_bytes("manifest.full-compaction-threshold-size", 16 << 20),
        )


def merge_manifests(
    branch: PaimonBranch, manifests: Sequence[Row], files: ManifestWriter
) -> list[Row]:
    """The same entries in fewer manifests, if the table's options ask for that."""
    sizes = MergeSizes.of(branch.layout.options)
    merger = _Merger(branch, files, sizes)
    full = merger.merge_fully(manifests)
    return merger.merge_neighbours(manifests) if full is None else full


@dataclass(frozen=True, slots=True)
class _Merger:
    branch: PaimonBranch
    files: ManifestWriter
    sizes: MergeSizes

    def merge_neighbours(self, manifests: Sequence[Row]) -> list[Row]:
        result: list[Row] = []
        waiting: list[Row] = []
        done = 0
        for manifest in manifests:
            waiting.append(manifest)
            size = _size(waiting)
            if size >= self.sizes.target_bytes:
                can_merge = len(waiting) > 1 and done + size <= _MOST_BYTES
                result += self._join(waiting) if can_merge else waiting
                done += size if can_merge else 0
                waiting = []
        many = len(waiting) >= max(self.sizes.least_count, 2)
        return result + (self._join(waiting) if many else waiting)

    def merge_fully(self, manifests: Sequence[Row]) -> list[Row] | None:
        """None if that would gain too little, or cost too much at once."""
        small = [each for each in manifests if self._is_small(each)]
        if len(small) < 2 or not self.sizes.full_bytes <= _size(small) <= _MOST_BYTES:
            return None
        deleted = self._deleted_names(small)
        read = partial(_names_any, self.branch, deleted)
        large = [each for each in manifests if not self._is_small(each)]
        touched = self.branch.table.map_manifests(read, large, _WORKERS)
        names = {each["_FILE_NAME"] for each, hit in zip(large, touched, strict=True) if hit}
        changing = [
            each for each in manifests if self._is_small(each) or each["_FILE_NAME"] in names
        ]
        kept = [each for each in large if each["_FILE_NAME"] not in names]
        return None if _size(changing) > _MOST_BYTES else kept + self._join(changing)

    def _is_small(self, manifest: Row) -> bool:
        return manifest["_NUM_DELETED_FILES"] > 0 or _size([manifest]) < self.sizes.target_bytes

    def _deleted_names(self, manifests: Iterable[Row]) -> pa.Array:
        found = [
            batch["name"].filter(pc.equal(batch["kind"], DELETE))
            for manifest in manifests
            if manifest["_NUM_DELETED_FILES"]
            for batch in read_row_entries(self.branch.table, manifest)
        ]
        return pa.concat_arrays([pa.array([], pa.string()), *found])

    def _join(self, manifests: Sequence[Row]) -> list[Row]:
        entries: dict[tuple[object, ...], Row] = {}
        formats: list[RowFormat] = []
        for manifest in manifests:
            how, rows = read_entry_rows(self.branch.table, manifest)
            formats.append(how)
            for row in rows:
                _apply(entries, row, manifest)
        if not entries:
            return []
        how = widest(self.branch.table.address.path, formats)
        return self.files.manifests(list(entries.values()), how)


def _size(manifests: Iterable[Row]) -> int:
    return sum(each["_FILE_SIZE"] for each in manifests)


def _names_any(branch: PaimonBranch, names: pa.Array, manifest: Row) -> bool:
    return any(
        pc.any(pc.is_in(batch["name"], value_set=names)).as_py()
        for batch in read_row_entries(branch.table, manifest)
    )


def _apply(entries: dict[tuple[object, ...], Row], row: Row, manifest: Row) -> None:
    """Apply an entry after those before it: a DELETE cancels its ADD."""
    key = row_identity(row)
    known = entries.get(key)
    if known is None:
        entries[key] = row
    elif known["_KIND"] == ADD and row["_KIND"] == DELETE:
        del entries[key]
    elif known["_KIND"] == DELETE and row["_KIND"] == ADD:
        # Deleted, then added again: both are needed, and the ADD must follow the DELETE.
        entries[(*key, DELETE)] = entries.pop(key)
        entries[key] = row
    else:
        raise DamagedError(manifest["_FILE_NAME"], f"names {row['_FILE']['_FILE_NAME']} twice")
