"""Resolve what a manifest file names: manifests of a list, paths of entries, index files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.paimon.manifests.blob_references import SUFFIX
from lakesweep.paimon.manifests.entries import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.table import PaimonTable

_MANIFEST_COLUMNS = ["name", "size_bytes", "added", "deleted", "extra_files"]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as a list names it: how long it is, and how many entries it has of each kind."""

    name: str
    size_bytes: int
    added: int
    deleted: int
    extra_files: tuple[str, ...]


class NamedFiles(NamedTuple):
    """The files that entries name. `rows` tells which entry each path comes from."""

    paths: pa.Array
    rows: npt.NDArray[np.int64]


def manifests_of(
    table: PaimonTable, name: str, size_bytes: int | None = None, least: int = 0
) -> tuple[ManifestFile, ...]:
    """The manifests that a list names: so many at least."""
    path = table.layout.manifest(name)
    found = read_manifest_list(path, table.read(path), size_bytes=size_bytes, least=least)
    return tuple(
        ManifestFile(
            row["name"],
            row["size_bytes"],
            row["added"],
            row["deleted"],
            tuple(row["extra_files"] or ()),
        )
        for row in found.select(_MANIFEST_COLUMNS).to_pylist()
    )


def read_entries(
    table: PaimonTable, manifest: ManifestFile, *, embedded_indexes: bool = True
) -> Iterator[pa.RecordBatch]:
    """The entries of a manifest as FULL_ENTRIES; TruncatedError unless they are all there."""
    path = table.layout.manifest(manifest.name)
    for batch in read_manifest(
        path,
        table.read(path),
        size_bytes=manifest.size_bytes,
        entries=manifest.added + manifest.deleted,
        embedded_indexes=embedded_indexes,
    ):
        check_external_paths(path, batch["external_path"], table.layout)
        yield batch


def index_files_of(
    table: PaimonTable, layout: Layout, name: str, least: int = 0
) -> tuple[pa.Array, pa.Array]:
    """The index files that an index manifest names, so many at least: their paths and sizes."""
    path = table.layout.manifest(name)
    found = read_index_manifest(path, table.read(path), least=least).combine_chunks()
    external = found["external_path"].combine_chunks()
    check_external_paths(path, external, layout, of_buckets=False)
    return index_paths(layout, found), found["size_bytes"].combine_chunks()


def index_paths(layout: Layout, entries: pa.Table) -> pa.Array:
    """The address of each index file."""
    names = ["partition", "bucket", "name", "external_path", "first_row"]
    rows = pa.RecordBatch.from_arrays([entries[name].combine_chunks() for name in names], names)
    inside = pc.binary_join_element_wise(f"{layout.root}index/", rows["name"], "")
    if layout.indexes_beside_data:
        # One over the whole table belongs to no bucket.
        inside = pc.if_else(pc.is_valid(rows["first_row"]), inside, layout.data_paths(rows))
    return pc.coalesce(rows["external_path"], inside)


def check_external_paths(
    path: str, external: pa.Array, layout: Layout, *, of_buckets: bool = True
) -> None:
    """DamagedError if a manifest names a file where its table keeps none.

    Anybody who can write a manifest could otherwise have files of others deleted with it.
    """
    if external.null_count == len(external):
        return
    folders = pc.unique(pc.replace_substring_regex(external.drop_null(), "[^/]*$", ""))
    for folder in folders.to_pylist():
        if not layout.is_own_folder(folder, of_buckets=of_buckets):
            raise DamagedError(
                path,
                f"names a file in {folder}, which is in no external path of the table",
                hint="set data-file.external-paths to the folders that the table has written to",
            )


def files_of(layout: Layout, entries: pa.RecordBatch) -> NamedFiles:
    """The files that entries name: their own, then the extra files, which lie beside them."""
    paths = layout.data_paths(entries)
    extra = entries["extra_files"]
    parents = pc.list_parent_indices(extra).cast(pa.int64())
    folders = pc.replace_substring_regex(paths.take(parents), "[^/]*$", "")
    beside = pc.binary_join_element_wise(folders, pc.list_flatten(extra), "")
    own = np.arange(len(paths), dtype=np.int64)
    return NamedFiles(
        pa.concat_arrays([paths, beside]),
        np.concatenate([own, parents.to_numpy()]),
    )


def names_of(layout: Layout, entries: pa.RecordBatch) -> NamedFiles:
    """The same by names alone, for who need not find the files.

    Where a sidecar has to be read for the packs that it names, they are paths all the same.
    """
    extra = pc.list_flatten(entries["extra_files"])
    if pc.any(pc.ends_with(extra, SUFFIX)).as_py():
        return files_of(layout, entries)
    names = pc.coalesce(entries["external_path"], entries["name"])
    parents = pc.list_parent_indices(entries["extra_files"]).to_numpy().astype(np.int64)
    own = np.arange(len(names), dtype=np.int64)
    return NamedFiles(pa.concat_arrays([names, extra]), np.concatenate([own, parents]))
