"""Open a table for changes, by its name in a catalog or by its address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import UsageError
from lakesweep.iceberg.commits.pointer_commit import PointerHandle, TablePointer
from lakesweep.iceberg.commits.table_handle import TableHandle
from lakesweep.iceberg.generic_catalog import Name
from lakesweep.iceberg.table_identifier import (
    is_address,
    is_metadata_file,
    split_identifier,
)

if TYPE_CHECKING:
    from lakesweep.iceberg.table_identifier import IcebergTables
    from lakesweep.storage.stores import Stores


def open_table(
    tables: IcebergTables,
    ref: str,
    *,
    metadata_out: str | None = None,
    sole_writer: bool = False,
    clock: Clock | None = None,
) -> TableHandle:
    """The table of a REF: `catalog.namespace.table`, a metadata file, or a table's folder.

    `metadata_out` is where the new metadata of a file is written; beside the old one if not given.
    With `sole_writer`, a folder in an object store may be changed, too.
    """
    clock = clock or SystemClock()
    if is_address(ref):
        return _open_files(tables.stores, ref, metadata_out, sole_writer, clock)
    if metadata_out is not None:
        raise UsageError(f"{ref} has a catalog, which decides where its metadata is written")
    catalog, *name = split_identifier(ref)
    adapter = tables.open(catalog)
    open_one = _KINDS.get(type(adapter).__name__)
    if open_one is None:
        raise UsageError(
            f"tables of catalog {catalog} cannot be changed: its client cannot commit",
            hint="change the table with the engine that writes it",
        )
    return open_one(adapter, tuple(name), tables.stores, clock)


def _open_files(
    stores: Stores, ref: str, metadata_out: str | None, sole_writer: bool, clock: Clock
) -> TableHandle:
    from lakesweep.iceberg.commits.file_tables import FolderTable, MetadataFile

    if is_metadata_file(ref):
        return MetadataFile(ref, stores, metadata_out, clock)
    if metadata_out is not None:
        raise UsageError(f"{ref} is a folder, whose versions decide where metadata is written")
    return FolderTable(ref, stores, sole_writer, clock)


def _rest(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    from lakesweep.iceberg.commits.rest_table import RestTable

    return RestTable(adapter, name, stores, clock)


def _sql(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    from lakesweep.iceberg.commits.database_pointers import SqlPointer

    return _pointed(SqlPointer(adapter, name, stores), clock)


def _dynamodb(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    from lakesweep.iceberg.commits.database_pointers import DynamoDbPointer

    return _pointed(DynamoDbPointer(adapter, name, stores, clock), clock)


def _glue(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    from lakesweep.iceberg.commits.metastore_pointers import GluePointer

    return _pointed(GluePointer(adapter, name, stores), clock)


def _hive(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    from lakesweep.iceberg.commits.metastore_pointers import HivePointer

    return _pointed(HivePointer(adapter, name, stores), clock)


def _own(adapter: Any, name: Name, stores: Stores, clock: Clock) -> TableHandle:
    return _pointed(adapter.pointer(name, stores), clock)


def _pointed(pointer: TablePointer, clock: Clock) -> TableHandle:
    return PointerHandle(pointer, clock)


#: How a table is opened, by the adapter of its catalog. Clients are imported only when used.
_KINDS: Mapping[str, Callable[[Any, Name, Stores, Clock], TableHandle]] = {
    "RestCatalogAdapter": _rest,
    "SqlCatalogAdapter": _sql,
    "DynamoDbCatalogAdapter": _dynamodb,
    "GlueCatalogAdapter": _glue,
    "HiveCatalogAdapter": _hive,
    "RealmCatalogAdapter": _own,
}
