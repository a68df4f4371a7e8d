"""Catalogs that are lists of tables: Glue, Hive and DynamoDB.

They say of each table where its metadata file is, so no file need be read to list tables. Glue and
Hive also hold tables of other formats, whose files nobody must take for garbage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.iceberg.any_catalog import AnyCatalog
from lakesweep.iceberg.entries import (
    Entry,
    Name,
    OtherTable,
    Unknown,
    full_name,
    missing,
    without_metadata,
)

if TYPE_CHECKING:
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog
    from pyiceberg.catalog.glue import GlueCatalog
    from pyiceberg.catalog.hive import HiveCatalog


@dataclass(frozen=True, slots=True)
class Described:
    """A table as a metastore describes it."""

    name: Name
    parameters: Mapping[str, str]
    folders: tuple[str, ...]


@dataclass(frozen=True)
class _Metastore(AnyCatalog, ABC):
    """Tables of many formats, told apart by a parameter."""

    @abstractmethod
    def describe(self, name: Name) -> Described:
        """One table; any error of the client."""

    @abstractmethod
    def describe_all(self, namespace: Name) -> list[Described]:
        """Every table of a namespace, of whatever format; any error of the client."""

    def find(self, name: Name) -> Entry:
        found = self._told(self.ask(name, lambda: self.describe(name)))
        match found:
            case Entry():
                return found
            case Unknown():
                raise found.error
            case OtherTable():
                raise missing(self.name, name)

    def survey(self) -> Iterator[Entry | Unknown | OtherTable]:
        for namespace in self.namespaces():
            yield from map(self._told, self._described(namespace))

    def _described(self, namespace: Name) -> list[Described]:
        return self.ask(namespace, lambda: self.describe_all(namespace))

    def _told(self, table: Described) -> Entry | Unknown | OtherTable:
        if table.parameters.get("table_type", "").lower() != "iceberg":
            return OtherTable(full_name(self.name, table.name), table.folders)
        path = table.parameters.get("metadata_location")
        if not path:
            error = without_metadata(self.name, table.name)
            return Unknown(full_name(self.name, table.name), table.name, error)
        access = dict(self.catalog.properties)
        return Entry(self.name, table.name, False, path, access, table.folders)


@dataclass(frozen=True)
class GlueTables(_Metastore):
    """The tables of AWS Glue."""

    catalog: GlueCatalog

    def describe(self, name: Name) -> Described:
        database, table = name
        return _of_glue(dict(self.catalog._get_glue_table(database, table)))  # noqa: SLF001

    def describe_all(self, namespace: Name) -> list[Described]:
        pages = self.catalog.glue.get_paginator("get_tables").paginate(DatabaseName=namespace[0])
        return [_of_glue(dict(table)) for page in pages for table in page["TableList"]]


@dataclass(frozen=True)
class HiveTables(_Metastore):
    """The tables of a Hive metastore."""

    catalog: HiveCatalog

    def describe(self, name: Name) -> Described:
        with self.catalog._client as client:  # noqa: SLF001
            return _of_hive(self.catalog._get_hive_table(client, *name))  # noqa: SLF001

    def describe_all(self, namespace: Name) -> list[Described]:
        with self.catalog._client as client:  # noqa: SLF001
            names = client.get_all_tables(db_name=namespace[0])
            tables = client.get_table_objects_by_name(dbname=namespace[0], tbl_names=names)
            return [_of_hive(table) for table in tables]


@dataclass(frozen=True)
class DynamoTables(AnyCatalog):
    """The tables of a catalog in DynamoDB, which holds no others."""

    catalog: DynamoDbCatalog

    def find(self, name: Name) -> Entry:
        database, table = name
        item = self.ask(name, lambda: self.catalog._get_iceberg_table_item(database, table))  # noqa: SLF001
        path = item.get("p.metadata_location", {}).get("S")
        if not path:
            raise without_metadata(self.name, name)
        return Entry(self.name, name, False, path, dict(self.catalog.properties))

    @property
    def requests_at_once(self) -> int:
        return 8


def _of_glue(table: Mapping[str, Any]) -> Described:
    storage = table.get("StorageDescriptor") or {}
    placed = (storage.get("SerdeInfo") or {}).get("Parameters") or {}
    name = (table["DatabaseName"], table["Name"])
    folders = _folders(storage.get("Location"), placed.get("path"))
    return Described(name, table.get("Parameters") or {}, folders)


def _of_hive(table: Any) -> Described:
    placed = (table.sd and table.sd.serdeInfo and table.sd.serdeInfo.parameters) or {}
    folders = _folders(table.sd and table.sd.location, placed.get("path"))
    return Described((table.dbName, table.tableName), table.parameters or {}, folders)


def _folders(*locations: str | None) -> tuple[str, ...]:
    """Where the files of a table are. Spark tells it in one place, and fills in the other."""
    return tuple(dict.fromkeys(location for location in locations if location))
