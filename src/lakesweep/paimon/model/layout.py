"""Where a table keeps its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import Partitioning, escape, partition_texts
from lakesweep.storage.address import folder_identity

MAIN = "main"
_POSTPONED = -2


@dataclass(frozen=True, slots=True)
class Layout:
    """The addresses of a table's files; `root` is the table's own and ends in `/`.

    Schemas, snapshots, tags, changelogs and consumers lie in the branch, all else in the root.
    `is_hashed` where each bucket with a file has an index file. `external_roots` are those that any
    schema names: metadata is not believed if it names a file anywhere else.
    """

    root: str
    partitioning: Partitioning
    options: Options
    branch: str = MAIN
    is_hashed: bool = False
    external_roots: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[Hashable, ...]:
        """What decides where data and index files lie: layouts with equal places agree on it."""
        return self.root, self.data_folder, self.partitioning, self.indexes_beside_data

    @property
    def indexes_beside_data(self) -> bool:
        """Whether index files lie in the buckets that they belong to."""
        return self.options.flag("index-file-in-data-file-dir", False)

    @property
    def branch_folder(self) -> str:
        """The folder of the branch; the table's own for the main branch."""
        return self.root if self.branch == MAIN else f"{self.root}branch/branch-{self.branch}/"

    @property
    def data_folder(self) -> str:
        """The folder of partitions and buckets."""
        inner = (self.options.text("data-file.path-directory") or "").strip("/")
        return f"{self.root}{inner}/" if inner else self.root

    def is_own_folder(self, folder: str, *, of_buckets: bool) -> bool:
        """Whether the table keeps files in a folder: in its own, or below an external root.

        There, files of buckets lie in folders named like those of the table itself.
        """
        place = _plain(folder)
        if place is None:
            return False
        for root in map(_plain, self.external_roots):
            if root is not None and place.startswith(root):
                inside = place.removeprefix(root)
                if not of_buckets or self._bucket_pattern.fullmatch(inside):
                    return True
        return place.startswith(_plain(self.root) or folder)

    @property
    def _bucket_pattern(self) -> re.Pattern[str]:
        inner = self.data_folder.removeprefix(self.root)
        return _bucket_pattern(inner, self.partitioning.names)

    def least_indexes(self, rows: int | None) -> int:
        """How many index files a snapshot with this many rows must name, if it names any."""
        return int(self.is_hashed and bool(rows))

    def schema(self, number: int) -> str:
        return f"{self.branch_folder}schema/schema-{number}"

    def snapshot(self, number: int) -> str:
        return f"{self.branch_folder}snapshot/snapshot-{number}"

    def changelog(self, number: int) -> str:
        return f"{self.branch_folder}changelog/changelog-{number}"

    def tag(self, name: str) -> str:
        return f"{self.branch_folder}tag/tag-{name}"

    def consumer(self, name: str) -> str:
        return f"{self.branch_folder}consumer/consumer-{name}"

    def hint(self, folder: str, name: str) -> str:
        """A hint of `snapshot` or `changelog`, such as `LATEST`."""
        return f"{self.branch_folder}{folder}/{name}"

    def manifest(self, name: str) -> str:
        """A manifest, a manifest list, an index manifest or a sidecar of one."""
        return f"{self.root}manifest/{name}"

    def statistics(self, name: str) -> str:
        return f"{self.root}statistics/{name}"

    def bucket_folders(self, partitions: pa.Array, buckets: pa.Array) -> pa.DictionaryArray:
        """The folder of each pair of partition and bucket, each distinct one made once."""
        return _by_pairs(partitions, buckets, self._folders)

    def data_paths(self, entries: pa.RecordBatch) -> pa.Array:
        """The address of each file that entries name."""
        folders = self.bucket_folders(entries["partition"], entries["bucket"])
        inside = pc.binary_join_element_wise(folders.cast(pa.string()), entries["name"], "")
        return pc.coalesce(entries["external_path"], inside)

    def _folders(self, partitions: pa.Array, buckets: list[int]) -> list[str]:
        texts = partition_texts(partitions, self.partitioning)
        return [
            f"{self.data_folder}{text}{'/' if text else ''}{bucket_name(bucket)}/"
            for text, bucket in zip(texts, buckets, strict=True)
        ]


#: With `data-file.external-paths.strategy` entropy-inject, some bits of a hash are folders.
ENTROPY = r"(?:[01]{4}/[01]{4}/[01]{4}/[01]{8}/)?"
_SLASHES = re.compile("(?<!:)/{2,}")


@lru_cache(maxsize=64)
def _bucket_pattern(inner: str, keys: tuple[str, ...]) -> re.Pattern[str]:
    partition = "".join(f"{re.escape(escape(key))}=[^/]+/" for key in keys)
    return re.compile(rf"{re.escape(inner)}{partition}bucket-(?:\d+|postpone)/{ENTROPY}")


def _plain(folder: str) -> str | None:
    """A folder in the spelling in which folders are compared; None if it leads upwards."""
    parts = folder.split("/")
    if ".." in parts or "." in parts:
        return None
    return _SLASHES.sub("/", folder_identity(folder))


def bucket_name(bucket: int) -> str:
    """The name of a bucket's folder."""
    return "bucket-postpone" if bucket == _POSTPONED else f"bucket-{bucket}"


def _by_pairs(
    partitions: pa.Array, buckets: pa.Array, make: Callable[[pa.Array, list[int]], list[str]]
) -> pa.DictionaryArray:
    """What `make` gives for the distinct pairs, in the places of all."""
    encoded = partitions.dictionary_encode()
    numbers = buckets.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64) << 32
    pairs |= numbers & 0xFFFFFFFF
    _, first, places = np.unique(pairs, return_index=True, return_inverse=True)
    made = make(partitions.take(pa.array(first)), numbers[first].tolist())
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(made, pa.string()))


JOURNAL_FOLDER = "_lakesweep"
