"""The adapters for metastores: AWS Glue and Hive.

They return the metadata file of every table, so listing tables reads no files. They also hold
tables of other formats, whose files must not be taken for garbage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.errors import IncompleteError
from lakesweep.iceberg.generic_catalog import (
    CatalogEntry,
    ForeignTable,
    GenericCatalogAdapter,
    Name,
    UnresolvedTable,
    full_name,
    table_missing,
    without_metadata,
)
from lakesweep.paging import PageTrail

if TYPE_CHECKING:
    from pyiceberg.catalog.glue import GlueCatalog
    from pyiceberg.catalog.hive import HiveCatalog


#: A metastore that sends nothing for this long counts as dead.
_SILENCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """A table as a metastore describes it."""

    name: Name
    parameters: Mapping[str, str]
    folders: tuple[str, ...]


@dataclass(frozen=True)
class _Metastore(GenericCatalogAdapter, ABC):
    """Tables of many formats, distinguished by a parameter."""

    @abstractmethod
    def describe(self, name: Name) -> MetastoreTable:
        """One table; any error of the client."""

    @abstractmethod
    def describe_all(self, namespace: Name) -> list[MetastoreTable]:
        """Every table of a namespace, of whatever format; any error of the client."""

    def find(self, name: Name) -> CatalogEntry:
        found = self._told(self.ask(name, lambda: self.describe(name)))
        match found:
            case CatalogEntry():
                return found
            case UnresolvedTable():
                raise found.error
            case ForeignTable():
                raise table_missing(self.name, name)

    def survey(self) -> Iterator[CatalogEntry | UnresolvedTable | ForeignTable]:
        for namespace in self.namespaces():
            yield from map(self._told, self._described(namespace))

    def _described(self, namespace: Name) -> list[MetastoreTable]:
        return self.ask(namespace, lambda: self.describe_all(namespace))

    def _told(self, table: MetastoreTable) -> CatalogEntry | UnresolvedTable | ForeignTable:
        if table.parameters.get("table_type", "").lower() != "iceberg":
            return ForeignTable(full_name(self.name, table.name), table.folders)
        path = table.parameters.get("metadata_location")
        if not path:
            error = without_metadata(self.name, table.name)
            return UnresolvedTable(full_name(self.name, table.name), table.name, error)
        access = dict(self.catalog.properties)
        return CatalogEntry(self.name, table.name, False, path, access, table.folders)


@dataclass(frozen=True)
class GlueCatalogAdapter(_Metastore):
    """The tables of AWS Glue."""

    catalog: GlueCatalog

    def describe(self, name: Name) -> MetastoreTable:
        database, table = name
        return _of_glue(dict(self.catalog._get_glue_table(database, table)))  # noqa: SLF001

    def describe_all(self, namespace: Name) -> list[MetastoreTable]:
        pages = self._pages("get_tables", "TableList", DatabaseName=namespace[0])
        return [_of_glue(dict(table)) for table in pages]

    def namespaces(self, parent: Name = ()) -> Iterator[Name]:
        # PyIceberg's own loop follows any token.
        if not parent:
            found = self.ask((), lambda: [*self._pages("get_databases", "DatabaseList")])
            yield from ((str(database["Name"]),) for database in found)

    def _pages(self, method: str, rows: str, **wanted: str) -> Iterator[Mapping[str, Any]]:
        """All rows of a listing; IncompleteError if it does not end."""
        trail = PageTrail()
        for page in self.catalog.glue.get_paginator(method).paginate(**wanted):
            yield from page[rows]
            trail = trail.follow(str(page.get("NextToken")), found=bool(page[rows]))
            if trail.problem and page.get("NextToken"):
                raise IncompleteError(f"catalog {self.name}: {trail.problem}")


@dataclass(frozen=True)
class HiveCatalogAdapter(_Metastore):
    """The tables of a Hive metastore."""

    catalog: HiveCatalog

    def describe(self, name: Name) -> MetastoreTable:
        with self.catalog._client as client:  # noqa: SLF001
            return _of_hive(self.catalog._get_hive_table(client, *name))  # noqa: SLF001

    def describe_all(self, namespace: Name) -> list[MetastoreTable]:
        with self.catalog._client as client:  # noqa: SLF001
            names = client.get_all_tables(db_name=namespace[0])
            tables = client.get_table_objects_by_name(dbname=namespace[0], tbl_names=names)
            return [_of_hive(table) for table in tables]


def bound_waiting(catalog: HiveCatalog) -> HiveCatalog:
    """Give up on a metastore that is silent: PyIceberg sets no time limit."""
    client: Any = catalog._client  # noqa: SLF001
    connect = client._init_thrift_transport  # noqa: SLF001

    def connect_bounded() -> Any:
        transport = connect()
        # Buffered and SASL transports have no name in common for the socket below them.
        for name in ("_TBufferedTransport__trans", "transport"):
            if hasattr(transport, name):
                getattr(transport, name).setTimeout(_SILENCE_MS)
        return transport

    client._init_thrift_transport = connect_bounded  # noqa: SLF001
    client._transport = connect_bounded()  # noqa: SLF001
    return catalog


def _of_glue(table: Mapping[str, Any]) -> MetastoreTable:
    storage = table.get("StorageDescriptor") or {}
    placed = (storage.get("SerdeInfo") or {}).get("Parameters") or {}
    name = (table["DatabaseName"], table["Name"])
    folders = _folders(storage.get("Location"), placed.get("path"))
    return MetastoreTable(name, table.get("Parameters") or {}, folders)


def _of_hive(table: Any) -> MetastoreTable:
    placed = (table.sd and table.sd.serdeInfo and table.sd.serdeInfo.parameters) or {}
    folders = _folders(table.sd and table.sd.location, placed.get("path"))
    return MetastoreTable((table.dbName, table.tableName), table.parameters or {}, folders)


def _folders(*locations: str | None) -> tuple[str, ...]:
    """Where the files of a table are. Spark states it in one field and fills the other."""
    return tuple(dict.fromkeys(location for location in locations if location))
