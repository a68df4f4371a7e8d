"""The live files of one snapshot or tag.

A file is live if it is added more often than it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.paimon.manifests.entries import ADD, DELETE
from lakesweep.paimon.manifests.named_files import (
    ManifestFile,
    files_of,
    index_files_of,
    manifests_of,
    read_entries,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.file_batches import batch_of


def state_files(
    branch: PaimonBranch, snapshot: PaimonSnapshot, *, workers: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The data files, extra files and index files that readers of a state open."""
    table, layout = branch.table, branch.layout
    for entries in live_entries(branch, snapshot, workers=workers):
        named = files_of(layout, entries)
        yield batch_of(PaimonKind.DATA, named.paths[: entries.num_rows], entries["size_bytes"])
        yield batch_of(PaimonKind.EXTRA, named.paths[entries.num_rows :])
    if snapshot.index_manifest is not None:
        least = layout.least_indexes(snapshot.total_record_count)
        found = index_files_of(table, layout, snapshot.index_manifest, least)
        yield batch_of(PaimonKind.INDEX, *found)


def live_entries(
    branch: PaimonBranch, snapshot: PaimonSnapshot, *, workers: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The entries of a state that are live: added more often than deleted, as FULL_ENTRIES.

    Most files were never deleted and are passed on as they are read. What was ever deleted is
    counted at the end, so that no more is held in memory than that.
    """
    table, layout = branch.table, branch.layout
    workers = workers or table.walk_workers
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
        yield rows.take(pa.array(live_positions(_identities(layout, rows), is_added)))


def _identities(layout: Layout, entries: pa.RecordBatch) -> Hashes:
    return hash128(entry_identities(layout.data_paths(entries), entries))


def _manifests(table: PaimonTable, snapshot: PaimonSnapshot) -> Sequence[ManifestFile]:
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


def entry_identities(paths: pa.Array, entries: pa.RecordBatch) -> pa.Array:
    """What an ADD and a DELETE must have in common to be of one file, as texts.

    Partition, bucket, name and external path are in the file's own path.
    """
    parts = [
        paths.cast(pa.binary()),
        entries["level"].cast(pa.string()).cast(pa.binary()),
        pc.binary_join(entries["extra_files"].fill_null([]), "\n").cast(pa.binary()),
        entries["embedded_index"].fill_null(b""),
    ]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"\0", pa.binary()))
    return joined.view(pa.string())  # only its bytes matter: it is hashed next


def live_positions(identities: Hashes, is_added: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Of each identity that is added more often than deleted, a place where it is added."""
    if not len(is_added):
        return np.empty(0, np.int64)
    order = np.lexsort((~is_added, *identities))
    low, high = identities[0][order], identities[1][order]
    firsts = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
    signs = np.where(is_added, 1, -1)[order]
    return order[firsts[np.add.reduceat(signs, firsts) > 0]]
