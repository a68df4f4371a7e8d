"""Resolve what a manifest file names: manifests of a list, paths of entries, index files.

No manifest names the packs that hold a data file's large values; only blob reference sidecars do.
Format of a sidecar:

    magic     4 bytes  "PBLR"
    version   1 byte   1
    count     4 bytes, big-endian
    count times: folder and name of a pack, each 2 bytes of length and modified UTF-8
    checksum  4 bytes  CRC-32 of everything between the magic and the checksum
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError, MissingError, TruncatedError
from lakesweep.paimon.manifests.entries import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.table import PaimonTable

_MANIFEST_COLUMNS = ["name", "size_bytes", "added", "deleted", "extra_files"]
SUFFIX = ".blobref"
_MAGIC = b"PBLR"
_VERSION = 1
_HEADER = struct.Struct(">4sBi")
_CHECKSUM_BYTES = 4


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
    """The manifests that a list names: `least` or more."""
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
    """The index files that an index manifest names, `least` or more: their paths and sizes."""
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

    Otherwise everyone who can write a manifest could have files of others deleted.
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
    """The same by names alone, for callers that only compare names.

    Where a sidecar has to be read for the packs that it names, they are paths all the same.
    """
    extra = pc.list_flatten(entries["extra_files"])
    if pc.any(pc.ends_with(extra, SUFFIX)).as_py():
        return files_of(layout, entries)
    names = pc.coalesce(entries["external_path"], entries["name"])
    parents = pc.list_parent_indices(entries["extra_files"]).to_numpy().astype(np.int64)
    own = np.arange(len(names), dtype=np.int64)
    return NamedFiles(pa.concat_arrays([names, extra]), np.concatenate([own, parents]))


def parse_blob_references(path: str, data: bytes) -> list[str]:
    """The addresses of the packs that a sidecar names."""
    if len(data) < _HEADER.size + _CHECKSUM_BYTES:
        raise TruncatedError(path, f"has {len(data)} bytes, too few for references to packs")
    magic, version, count = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or count < 0:
        raise DamagedError(path, "holds no references to packs of a version that is known")
    content, checksum = data[len(_MAGIC) : -_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if zlib.crc32(content) != int.from_bytes(checksum):
        raise DamagedError(path, "its checksum is wrong")
    texts = list(_texts(path, data[_HEADER.size : -_CHECKSUM_BYTES]))
    if len(texts) != 2 * count:
        raise DamagedError(path, f"says that it names {count} packs, and has {len(texts)} texts")
    return [f"{folder}/{name}" for folder, name in zip(texts[::2], texts[1::2], strict=True)]


def _texts(path: str, data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2])
        yield _decode(path, data[at + 2 : end])
        at = end


def _decode(path: str, text: bytes) -> str:
    """Java's modified UTF-8: surrogates are encoded one by one, and zero takes two bytes."""
    try:
        halves = text.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeError as error:
        raise DamagedError(path, f"a name is not readable: {error}") from error


class Sidecar(NamedTuple):
    """A file that names packs, and the data file that it belongs to."""

    path: str
    data_path: str


def find_sidecars(
    extra_paths: pa.Array, data_paths: pa.Array, rows: npt.NDArray[np.int64]
) -> Iterator[Sidecar]:
    """The sidecars among extra files; `rows` tells which data file each of them belongs to."""
    places = pc.indices_nonzero(pc.ends_with(extra_paths, SUFFIX)).to_numpy()
    beside = data_paths.take(pa.array(rows[places])).to_pylist()
    yield from map(Sidecar, extra_paths.take(pa.array(places)).to_pylist(), beside)


def read_packs(table: PaimonTable, sidecar: Sidecar) -> list[str]:
    """The addresses of the packs that a sidecar names.

    A sidecar is deleted after its data file, which manifests may long name. But one that is
    not there while its data file is leaves unknown what the data file needs: MissingError.
    """
    try:
        return parse_blob_references(sidecar.path, table.read(sidecar.path))
    except MissingError:
        if table.exists(sidecar.data_path):
            raise
        return []
