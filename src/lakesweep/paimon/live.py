"""The files of one state of a table: of a snapshot, or of a tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.paimon.entries import ADD, DELETE
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.layout import Layout
from lakesweep.paimon.liveness import identities, live_places
from lakesweep.paimon.naming import (
    ManifestFile,
    files_of,
    index_files_of,
    manifests_of,
    read_entries,
)
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import Branch, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.files import batch_of


def state_files(
    branch: Branch, snapshot: Snapshot, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """The data files, extra files and index files that somebody reads for a state."""
    table, layout = branch.table, branch.layout
    for entries in live_entries(branch, snapshot, workers=workers):
        named = files_of(layout, entries)
        yield batch_of(Kind.DATA, named.paths[: entries.num_rows], entries["size_bytes"])
        yield batch_of(Kind.EXTRA, named.paths[entries.num_rows :])
    if snapshot.index_manifest is not None:
        least = layout.least_indexes(snapshot.total_record_count)
        found = index_files_of(table, layout, snapshot.index_manifest, least)
        yield batch_of(Kind.INDEX, *found)


def live_entries(
    branch: Branch, snapshot: Snapshot, *, workers: int = 16
) -> Iterator[pa.RecordBatch]:
    """The entries of a state that are live: added more often than deleted, as FULL_ENTRIES.

    Most files were never deleted and are passed on as they are read. What was ever deleted is
    counted at the end, so that no more is held in memory than that.
    """
    table, layout = branch.table, branch.layout
    manifests = _manifests(table, snapshot)
    deleted = HashSet()
    shrinking = [each for each in manifests if each.deleted]
    for entries in _entries(table, shrinking, workers):
        deleted.add(_identities(layout, entries.filter(pc.equal(entries["kind"], DELETE))))
    doubtful: list[pa.RecordBatch] = []
    for entries in _entries(table, manifests, workers):
        is_doubtful = deleted.contains(_identities(layout, entries))
        yield entries.filter(pa.array(~is_doubtful))
        doubtful.append(entries.filter(pa.array(is_doubtful)))
    yield from _settled(layout, doubtful)


def _settled(layout: Layout, doubtful: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.concat_batches(doubtful) if doubtful else None
    if rows is not None and rows.num_rows:
        is_added = rows["kind"].to_numpy() == ADD
        yield rows.take(pa.array(live_places(_identities(layout, rows), is_added)))


def _identities(layout: Layout, entries: pa.RecordBatch) -> Hashes:
    return hash128(identities(layout.data_paths(entries), entries))


def _manifests(table: PaimonTable, snapshot: Snapshot) -> Sequence[ManifestFile]:
    lists = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    )
    return [each for name, size in lists for each in manifests_of(table, name, size)]


def _entries(
    table: PaimonTable, manifests: Iterable[ManifestFile], workers: int
) -> Iterator[pa.RecordBatch]:
    for batches in map_ordered(
        lambda manifest: list(read_entries(table, manifest)), manifests, workers=workers
    ):
        yield from batches
