"""Files that may be deleted when owners expire, each once, on disk and as hashes.

A candidate is deleted only if no remaining owner holds it, so naming too many is harmless.
Files that a list names but another interrupted expiry already deleted are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError
from lakesweep.hashing import Hashes, HashSet, hash128
from lakesweep.paimon.manifests.entries import ADD, COMPACT_SOURCE, DELETE
from lakesweep.paimon.manifests.named_files import (
    ManifestFile,
    files_of,
    index_files_of,
    manifests_of,
    read_entries,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.owned_folders import OwnedFolders
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.live_files import entry_identities, live_positions
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities
from lakesweep.storage.datasets.spool import Spool
from lakesweep.storage.file_batches import batch_of, coalesce_batches, file_batch
from lakesweep.storage.file_identity import resolve_aliases


class Candidates:
    """Candidates in the order in which they would be deleted. Leaving the context removes them.

    A file that the table cannot own is no candidate, whatever names it: DamagedError.
    """

    def __init__(self, owned: OwnedFolders) -> None:
        self.hashes = HashSet()
        self._owned = owned
        self._spool = Spool()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of FILE_SCHEMA; known files are skipped."""
        names = resolve_aliases(identities(batch["path"]))
        self._owned.check(names)
        is_new = self.hashes.add(hash128(names))
        self._spool.add(batch.filter(pa.array(is_new)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All candidates; none can be added afterwards."""
        return self._spool.batches()


class Garbage:
    """Finds the files that expired owners of a branch may leave behind. Lists are read once."""

    def __init__(self, branch: PaimonBranch) -> None:
        self._table = branch.table
        self._layout = branch.layout
        self._lists: dict[str, tuple[ManifestFile, ...]] = {}

    def deleted_files(
        self, lists: Iterable[str], *, only_compacted: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The files that deltas delete; with `only_compacted`, only those that compaction wrote."""
        manifests = (each for each in self._manifests(lists) if each.deleted)
        for entries in self._entries(DELETE, manifests):
            is_compacted = pc.equal(entries["file_source"].fill_null(0), COMPACT_SOURCE)
            chosen = entries.filter(is_compacted) if only_compacted else entries
            yield self._files(chosen, PaimonKind.DATA)

    def changelog_files(self, snapshots: Iterable[PaimonSnapshot]) -> Iterator[pa.RecordBatch]:
        """The files of changelogs, then their manifests and lists."""
        lists = dict(_changelog_lists(snapshots))
        manifests = (each for each in self._manifests(lists) if each.added)
        for entries in self._entries(ADD, manifests):
            yield self._files(entries, PaimonKind.CHANGELOG)
        yield from self._list_files(lists)

    def live_files(self, lists: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The files that lists add more often than they delete them."""
        manifests = self._manifests(lists)
        doubtful = list(self._entries(DELETE, (each for each in manifests if each.deleted)))
        deleted = HashSet()
        for rows in doubtful:
            deleted.add(self._hashes(rows))
        for rows in self._entries(ADD, (each for each in manifests if each.added)):
            is_deleted = pa.array(deleted.contains(self._hashes(rows)))
            yield self._files(rows.filter(pc.invert(is_deleted)), PaimonKind.DATA)
            doubtful.append(rows.filter(is_deleted))
        yield from self._live_of(doubtful)

    def _live_of(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The live files among entries in memory: those whose files are also deleted somewhere."""
        for rows in coalesce_batches(batches, max(1, sum(batch.num_rows for batch in batches))):
            is_added = rows["kind"].to_numpy() == ADD
            yield self._files(
                rows.take(live_positions(self._hashes(rows), is_added)), PaimonKind.DATA
            )

    def state_lists(self, snapshots: Iterable[PaimonSnapshot]) -> Iterator[pa.RecordBatch]:
        """The base and delta lists of snapshots, after the manifests that they name."""
        return self._list_files(dict(_state_lists(snapshots)))

    def index_files(self, snapshots: Sequence[PaimonSnapshot]) -> Iterator[pa.RecordBatch]:
        """Index manifests, after the index files that they name, and statistics."""
        layout = self._layout
        manifests = dict.fromkeys(each.index_manifest for each in snapshots if each.index_manifest)
        for name in manifests:
            with suppress(MissingError):
                yield batch_of(PaimonKind.INDEX, *index_files_of(self._table, layout, name))
        yield file_batch(
            PaimonKind.INDEX_MANIFEST, ((layout.manifest(name), None) for name in manifests)
        )
        statistics = dict.fromkeys(each.statistics for each in snapshots if each.statistics)
        paths = ((layout.statistics(name), None) for name in statistics)
        yield file_batch(PaimonKind.STATISTICS, paths)

    def _list_files(self, lists: Mapping[str, int | None]) -> Iterator[pa.RecordBatch]:
        found = self._manifests(lists)
        place = self._layout.manifest
        extra = ((place(name), None) for each in found for name in each.extra_files)
        yield file_batch(PaimonKind.EXTRA, extra)
        yield file_batch(
            PaimonKind.MANIFEST, ((place(each.name), each.size_bytes) for each in found)
        )
        yield file_batch(
            PaimonKind.MANIFEST_LIST, ((place(name), size) for name, size in lists.items())
        )

    def _manifests(self, lists: Iterable[str]) -> Collection[ManifestFile]:
        """The manifests of lists, each once."""
        wanted = dict.fromkeys(lists)
        unread = [name for name in wanted if name not in self._lists]
        found = map_ordered(self._read_list, unread, workers=self._table.read_workers)
        self._lists.update(zip(unread, found, strict=True))
        return {each.name: each for name in wanted for each in self._lists[name]}.values()

    def _read_list(self, name: str) -> tuple[ManifestFile, ...]:
        try:
            return manifests_of(self._table, name)
        except MissingError:
            return ()

    def _entries(self, kind: int, manifests: Iterable[ManifestFile]) -> Iterator[pa.RecordBatch]:
        """The entries of one kind; what another interrupted expiry deleted has none."""
        read = self._table.map_manifests(partial(_read_entries, self._table, kind), manifests)
        return coalesce_batches(batch for batches in read for batch in batches)

    def _files(self, entries: pa.RecordBatch, kind: PaimonKind) -> pa.RecordBatch:
        files = files_of(self._layout, entries)
        own = batch_of(kind, files.paths[: entries.num_rows], entries["size_bytes"])
        return pa.concat_batches([own, batch_of(PaimonKind.EXTRA, files.paths[entries.num_rows :])])

    def _hashes(self, entries: pa.RecordBatch) -> Hashes:
        return hash128(entry_identities(self._layout.data_paths(entries), entries))


def _read_entries(table: PaimonTable, kind: int, manifest: ManifestFile) -> list[pa.RecordBatch]:
    try:
        return [
            batch.filter(pc.equal(batch["kind"], kind)) for batch in read_entries(table, manifest)
        ]
    except MissingError:
        return []


def _state_lists(snapshots: Iterable[PaimonSnapshot]) -> Iterator[tuple[str, int | None]]:
    for each in snapshots:
        yield each.base_manifest_list, each.base_manifest_list_size
        yield each.delta_manifest_list, each.delta_manifest_list_size


def _changelog_lists(snapshots: Iterable[PaimonSnapshot]) -> Iterator[tuple[str, int | None]]:
    for each in snapshots:
        if each.changelog_manifest_list is not None:
            yield each.changelog_manifest_list, each.changelog_manifest_list_size
