"""Every file that a table or view reaches, as a stream of Arrow batches.

Children come before parents: the files of a manifest before the manifest, manifests before
their lists, the current metadata last. A deletion in this order can be interrupted and started
again from the metadata that is still there.

A manifest is read once, however many snapshots share it. A data file that several manifests
name comes several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from lakesweep.errors import MissingError
from lakesweep.hashing import HashSet, hash128
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.manifests import (
    MANIFEST_SCHEMA,
    embedded_manifests,
    read_manifest,
    read_manifest_list,
)
from lakesweep.iceberg.metadata import (
    IcebergSnapshot,
    TableMetadata,
    ViewMetadata,
    absolute_paths,
    read_file,
)
from lakesweep.marks.unreadable import READ_ERRORS, Problem, ReadFailure, Tolerance, problem_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import identities, parse
from lakesweep.storage.file_batches import FILE_SCHEMA, coalesce_batches, file_batch

if TYPE_CHECKING:
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores

Result = TypeVar("Result")


def reached_files(
    stores: Stores,
    metadata: Metadata,
    tolerance: Tolerance,
    *,
    workers: int = 16,
) -> Iterator[pa.RecordBatch]:
    """All files that the metadata reaches, as FILE_SCHEMA, children before parents."""
    match metadata:
        case ViewMetadata():
            yield file_batch(IcebergKind.VIEW_METADATA, [(metadata.path, metadata.size_bytes)])
        case TableMetadata():
            yield from coalesce_batches(IcebergWalk(stores, metadata, tolerance, workers).files())


class ListedManifest(NamedTuple):
    """A manifest, and what its list says of it."""

    path: str
    size_bytes: int | None
    entries: int | None


@dataclass
class IcebergWalk:
    """One pass over a table. The lists and manifests are read on threads, in order."""

    stores: Stores
    table: TableMetadata
    tolerance: Tolerance
    workers: int = 16
    seen: HashSet = field(default_factory=HashSet)
    list_sizes: dict[str, int] = field(default_factory=dict)

    def files(self) -> Iterator[pa.RecordBatch]:
        yield from self.below(self.manifests())
        yield from self.above()

    def above(self) -> Iterator[pa.RecordBatch]:
        """All but manifests and what they name; the sizes of lists once these were read."""
        table = self.table
        lists = dict.fromkeys(s.manifest_list for s in table.snapshots if s.manifest_list)
        yield file_batch(IcebergKind.MANIFEST_LIST, ((p, self.list_sizes.get(p)) for p in lists))
        yield file_batch(IcebergKind.STATISTICS, ((f.path, f.size_bytes) for f in table.statistics))
        yield file_batch(
            IcebergKind.PARTITION_STATISTICS,
            ((f.path, f.size_bytes) for f in table.partition_statistics),
        )
        yield file_batch(IcebergKind.METADATA_LOG, ((path, None) for path in table.log))
        yield file_batch(IcebergKind.VERSION_HINT, self._version_hint())
        yield file_batch(IcebergKind.METADATA, [(table.path, table.size_bytes)])

    def below(self, manifests: Iterable[ListedManifest]) -> Iterator[pa.RecordBatch]:
        """What manifests name, each manifest behind its files."""
        done = map_ordered(self._read_manifest, manifests, workers=self.workers)
        for manifest, batches in done:
            yield from batches
            yield file_batch(IcebergKind.MANIFEST, [(manifest.path, manifest.size_bytes)])

    def manifests(self) -> Iterator[ListedManifest]:
        """Each manifest of each snapshot, once."""
        for reason in self.table.dangling:
            self.tolerance.meet(Problem(self.table.path, ReadFailure.DAMAGED, reason))
        for found in map_ordered(self._read_list, self._distinct_lists(), workers=self.workers):
            hashes = hash128(identities(found["path"]))
            for row in found.filter(pa.array(self.seen.add(hashes))).to_pylist():
                yield ListedManifest(row["path"], row["size_bytes"], row["entries"])

    def _distinct_lists(self) -> Iterable[IcebergSnapshot]:
        embedded = [s for s in self.table.snapshots if s.manifest_list is None]
        listed = {s.manifest_list: s for s in self.table.snapshots if s.manifest_list is not None}
        return [*embedded, *listed.values()]

    def _read_list(self, snapshot: IcebergSnapshot) -> pa.Table:
        path = snapshot.manifest_list
        if path is None:
            return embedded_manifests(snapshot.manifests)
        found = self._attempt(path, lambda: self._listed(path, snapshot))
        return MANIFEST_SCHEMA.empty_table() if found is None else found

    def _listed(self, path: str, snapshot: IcebergSnapshot) -> pa.Table:
        data = read_file(self.stores, path)
        self.list_sizes[path] = len(data)
        found = read_manifest_list(path, data, data_files=snapshot.total_data_files)
        return found.set_column(0, MANIFEST_SCHEMA.field(0), self._resolved(found["path"]))

    def _read_manifest(
        self, manifest: ListedManifest
    ) -> tuple[ListedManifest, list[pa.RecordBatch]]:
        def read() -> list[pa.RecordBatch]:
            data = read_file(self.stores, manifest.path)
            batches = read_manifest(
                manifest.path, data, size_bytes=manifest.size_bytes, entries=manifest.entries
            )
            # All or nothing: what a damaged manifest names cannot be trusted, even to be purged.
            return [b.set_column(0, FILE_SCHEMA[0], self._resolved(b["path"])) for b in batches]

        return manifest, self._attempt(manifest.path, read) or []

    def _resolved(self, paths: pa.Array) -> pa.Array:
        return absolute_paths(paths, self.table.path_base)

    def _version_hint(self) -> Iterator[tuple[str, int | None]]:
        path = self.table.version_hint
        if path is None:
            return
        address = parse(path)
        try:
            yield path, self.stores.open(address).head(address.key).size_bytes
        except MissingError:
            return
        except READ_ERRORS as error:
            self.tolerance.meet(problem_of(error))
            yield path, None

    def _attempt(self, path: str, read: Callable[[], Result]) -> Result | None:
        try:
            return read()
        except READ_ERRORS as error:
            self.tolerance.meet(Problem(path, problem_of(error).state, error.reason))
            return None
