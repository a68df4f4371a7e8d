"""The data source `lakesweep.iceberg-files`: the files that a table or view reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.iceberg.known_tables import IcebergTables
from lakesweep.iceberg.reach import MANIFEST_LEVEL, UPPER_LEVELS, start_walk
from lakesweep.marks.pointers import Pointer
from lakesweep.marks.unreadable import Strict
from lakesweep.marks.walk import Walk
from lakesweep.spark.data_source import ArrowDataSource, ArrowSourceReader
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.locations import even_groups
from lakesweep.storage.stores import Keyring, Stores

#: What metadata says about a file; only its store knows when it was written.
REACHED_SCHEMA = pa.schema([FILE_SCHEMA.field(name) for name in ("path", "kind", "size_bytes")])


class IcebergFilesSource(ArrowDataSource):
    """Every file that a table or view reaches, of every kind; shared files appear repeatedly.

    `load` takes the address of a metadata file, the folder of a table with a version hint, or
    `catalog.namespace.table` if the sources were registered with that catalog. The first file that
    cannot be read fails the job, because the rows so far are incomplete.
    """

    @classmethod
    def name(cls) -> str:
        return "lakesweep.iceberg-files"

    def columns(self) -> pa.Schema:
        return REACHED_SCHEMA

    def open(self) -> IcebergFilesReader:
        return IcebergFilesReader(self.reach, self.address(), self.whole("parts", self.reach.parts))


@dataclass(frozen=True)
class IcebergPartition:
    """Some manifests of a table, or files that are known already."""

    stores: Stores
    manifests: tuple[Pointer, ...] = ()
    files: tuple[pa.RecordBatch, ...] = ()


class IcebergFilesReader(ArrowSourceReader[IcebergPartition]):
    """Reads metadata and manifest lists when it plans, and manifests in tasks."""

    def __init__(self, access: ExecutorAccess, ref: str, parts: int) -> None:
        super().__init__(REACHED_SCHEMA)
        self._access = access
        self._ref = ref
        self._parts = parts

    def shares(self) -> Sequence[IcebergPartition]:
        target = IcebergTables(self._access.stores, self._access.catalogs).find(self._ref)
        stores = target.stores
        walk = start_walk(stores, target.metadata, Strict())
        known = IcebergPartition(stores, files=tuple(walk.files(UPPER_LEVELS)))
        manifests = list(walk.take_pointers(MANIFEST_LEVEL.kind))
        groups = even_groups(manifests, self._parts)
        return [known, *(IcebergPartition(stores, group) for group in groups)]

    def rows(self, share: IcebergPartition) -> Iterator[pa.RecordBatch]:
        yield from share.files
        self._access.prepare()
        walk = Walk(Keyring(share.stores), Strict())
        yield from walk.read(MANIFEST_LEVEL.level(walk.keyring), share.manifests)
