"""What may go when owners leave: candidates, each once, on disk and as hashes.

A candidate goes only if nobody who stays holds it, so it does no harm to name too many. What the
lists of a leaving owner no longer have, because another program was interrupted while it deleted
the same, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError
from lakesweep.hashing import HashSet, hash128
from lakesweep.paimon.entries import ADD, DELETE
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.layout import Layout
from lakesweep.paimon.naming import ManifestFile, files_of, index_files_of, manifests_of
from lakesweep.paimon.protection import COMPACT_SOURCE, WORKERS, identities, read_entries
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.file_hashes import file_hashes
from lakesweep.storage.files import batch_of, file_batch
from lakesweep.storage.spool import Spool


class Candidates:
    """Files that may go, in the order in which they would. Leaving the context removes them."""

    def __init__(self) -> None:
        self.hashes = HashSet()
        self._spool = Spool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of FILE_SCHEMA; those that are there already are left out."""
        is_new = self.hashes.add(file_hashes(batch["path"]))
        self._spool.add(batch.filter(pa.array(is_new)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them. Nothing can be added any more."""
        return self._spool.batches()


def deleted_files(
    table: PaimonTable, layout: Layout, lists: Iterable[str], *, only_compacted: bool = False
) -> Iterator[pa.RecordBatch]:
    """The files that deltas delete; `only_compacted` those alone that compaction had made."""

    def chosen(entries: pa.RecordBatch) -> pa.RecordBatch:
        is_deleted = pc.equal(entries["kind"], DELETE)
        if only_compacted:
            is_compacted = pc.equal(entries["file_source"].fill_null(0), COMPACT_SOURCE)
            is_deleted = pc.and_(is_deleted, is_compacted)
        return entries.filter(is_deleted)

    manifests = [each for each in _distinct(table, lists) if each.deleted]
    for entries in _entries(table, manifests):
        yield _files(layout, chosen(entries), Kind.DATA)


def added_files(
    table: PaimonTable, layout: Layout, lists: Iterable[str], kind: Kind
) -> Iterator[pa.RecordBatch]:
    """The files that lists add."""
    for entries in _entries(table, [each for each in _distinct(table, lists) if each.added]):
        yield _files(layout, entries.filter(pc.equal(entries["kind"], ADD)), kind)


def live_files(
    table: PaimonTable, layout: Layout, lists: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """The files that are added by lists and not deleted by them again."""
    manifests = list(_distinct(table, lists))
    deleted = HashSet()
    for entries in _entries(table, [each for each in manifests if each.deleted]):
        rows = entries.filter(pc.equal(entries["kind"], DELETE))
        deleted.add(hash128(identities(layout.data_paths(rows), rows)))
    for entries in _entries(table, [each for each in manifests if each.added]):
        rows = entries.filter(pc.equal(entries["kind"], ADD))
        gone = deleted.contains(hash128(identities(layout.data_paths(rows), rows)))
        yield _files(layout, rows.filter(pa.array(~gone)), Kind.DATA)


def list_files_of(
    table: PaimonTable, layout: Layout, lists: Iterable[tuple[str, int | None]]
) -> Iterator[pa.RecordBatch]:
    """Manifest lists with the manifests that they name, the lists last."""
    named = dict(lists)
    found = {each.name: each for each in _distinct(table, named)}.values()
    yield file_batch(
        Kind.EXTRA, ((layout.manifest(name), None) for each in found for name in each.extra_files)
    )
    yield file_batch(
        Kind.MANIFEST, ((layout.manifest(each.name), each.size_bytes) for each in found)
    )
    yield file_batch(
        Kind.MANIFEST_LIST, ((layout.manifest(name), size) for name, size in named.items())
    )


def index_files(
    table: PaimonTable, layout: Layout, snapshots: Iterable[Snapshot]
) -> Iterator[pa.RecordBatch]:
    """Index manifests with the index files that they name, and statistics."""
    snapshots = list(snapshots)
    manifests = dict.fromkeys(each.index_manifest for each in snapshots if each.index_manifest)
    for name in manifests:
        with suppress(MissingError):
            paths, sizes = index_files_of(table, layout, name)
            yield batch_of(Kind.INDEX, paths, sizes)
    yield file_batch(Kind.INDEX_MANIFEST, ((layout.manifest(name), None) for name in manifests))
    statistics = dict.fromkeys(each.statistics for each in snapshots if each.statistics)
    yield file_batch(Kind.STATISTICS, ((layout.statistics(name), None) for name in statistics))


def state_lists(snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, int | None]]:
    """The base and delta lists of snapshots, with their sizes."""
    for each in snapshots:
        yield each.base_manifest_list, each.base_manifest_list_size
        yield each.delta_manifest_list, each.delta_manifest_list_size


def changelog_lists(snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, int | None]]:
    """The changelog lists of snapshots, with their sizes."""
    for each in snapshots:
        if each.changelog_manifest_list is not None:
            yield each.changelog_manifest_list, each.changelog_manifest_list_size


def _distinct(table: PaimonTable, lists: Iterable[str]) -> Iterable[ManifestFile]:
    """The manifests of lists, each once."""

    def read(name: str) -> tuple[ManifestFile, ...]:
        try:
            return manifests_of(table, name)
        except MissingError:
            return ()

    read_lists = map_ordered(read, dict.fromkeys(lists), workers=WORKERS)
    return {each.name: each for manifests in read_lists for each in manifests}.values()


def _entries(table: PaimonTable, manifests: Iterable[ManifestFile]) -> Iterator[pa.RecordBatch]:
    def read(manifest: ManifestFile) -> list[pa.RecordBatch]:
        try:
            return list(read_entries(table, manifest))
        except MissingError:
            return []

    for batches in map_ordered(read, manifests, workers=WORKERS):
        yield from batches


def _files(layout: Layout, entries: pa.RecordBatch, kind: Kind) -> pa.RecordBatch:
    files = files_of(layout, entries)
    own = batch_of(kind, files.paths[: entries.num_rows], entries["size_bytes"])
    return pa.concat_batches([own, batch_of(Kind.EXTRA, files.paths[entries.num_rows :])])
