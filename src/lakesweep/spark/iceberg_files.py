"""The data source `lakesweep.iceberg-files`: what a table or a view reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakesweep.iceberg.metadata import TableMetadata
from lakesweep.iceberg.reach import Manifest, Walk, reached_files
from lakesweep.iceberg.targets import IcebergTargets, Target
from lakesweep.spark.access import Access
from lakesweep.spark.sources import Reader, Source
from lakesweep.storage.files import FILE_SCHEMA
from lakesweep.storage.pieces import even_groups
from lakesweep.storage.stores import Stores
from lakesweep.storage.tolerance import Strict

#: What metadata says of a file; when it was written, only its store knows.
REACHED = pa.schema([FILE_SCHEMA.field(name) for name in ("path", "kind", "size_bytes")])


class IcebergFilesSource(Source):
    """Every file that a table or view reaches, of every kind; a shared file comes several times.

    `load` takes the address of a metadata file, the folder of a table with a version hint, or
    `catalog.namespace.table`, where the sources were registered with that catalog. The first file
    that cannot be read ends the job: what came before it is not the whole.
    """

    @classmethod
    def name(cls) -> str:
        return "lakesweep.iceberg-files"

    def columns(self) -> pa.Schema:
        return REACHED

    def open(self) -> IcebergFilesReader:
        return IcebergFilesReader(self.reach, self.address(), self.whole("parts", self.reach.parts))


@dataclass(frozen=True)
class Share:
    """Some manifests of a table, or files that are known already."""

    stores: Stores
    table: TableMetadata | None
    manifests: tuple[Manifest, ...] = ()
    files: tuple[pa.RecordBatch, ...] = ()


class IcebergFilesReader(Reader[Share]):
    """Reads metadata and manifest lists when it plans, and manifests in tasks."""

    def __init__(self, access: Access, ref: str, parts: int) -> None:
        super().__init__(REACHED)
        self._access = access
        self._ref = ref
        self._parts = parts

    def shares(self) -> Sequence[Share]:
        target = IcebergTargets(self._access.stores, self._access.catalogs).find(self._ref)
        metadata = target.metadata
        if isinstance(metadata, TableMetadata):
            return _table_shares(target, metadata, self._parts)
        files = reached_files(target.stores, metadata, Strict())
        return [Share(target.stores, None, files=tuple(files))]

    def rows(self, share: Share) -> Iterator[pa.RecordBatch]:
        yield from share.files
        self._access.prepare()
        if share.table is not None:
            yield from Walk(share.stores, share.table, Strict()).below(share.manifests)


def _table_shares(target: Target, table: TableMetadata, parts: int) -> list[Share]:
    walk = Walk(target.stores, table, Strict())
    groups = even_groups(list(walk.manifests()), parts)
    # To read manifests, a task need not know the table's history.
    bare = replace(table, snapshots=(), log=())
    known = Share(target.stores, None, files=tuple(walk.above()))
    return [known, *(Share(target.stores, bare, manifests) for manifests in groups)]
