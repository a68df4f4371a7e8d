"""The adapter for SQL catalogs: one database table holds every name and metadata file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.errors import ConfigError, LakesweepError, UsageError
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

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import Table


@dataclass(frozen=True)
class SqlCatalogAdapter(GenericCatalogAdapter):
    """Tables and views, read from the database of the catalog."""

    catalog: SqlCatalog

    def find(self, name: Name) -> CatalogEntry:
        for row in self._rows(name):
            return self._entry(row)
        raise table_missing(self.name, name)

    def is_listed(self, name: Name) -> bool:
        return bool(self._rows(name))

    def survey(self) -> Iterator[CatalogEntry | UnresolvedTable | ForeignTable]:
        for row in self._rows(None):
            try:
                yield self._entry(row)
            except LakesweepError as error:
                name = _name(row)
                yield UnresolvedTable(full_name(self.name, name), name, error)

    def drop(self, entry: CatalogEntry) -> None:
        if entry.is_view:
            raise UsageError(
                f"{entry.full_name} is a view, which this client cannot drop from a SQL catalog",
                hint="drop it with the engine that made it, or run without --drop",
            )
        super().drop(entry)

    def beside(self) -> Sequence[str]:
        return self.ask((), self._select_catalogs)

    def _rows(self, name: Name | None) -> list[Mapping[Any, Any]]:
        return self.ask(name or (), lambda: self._select(name))

    def _select_catalogs(self) -> list[str]:
        from sqlalchemy import select

        column = self.table().c.catalog_name
        with self.catalog.engine.connect() as connection:
            found = connection.execute(select(column).distinct().order_by(column)).scalars()
            return [name for name in found if name != self.catalog.name]

    def table(self) -> Table:
        """The database table that holds all names."""
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        try:
            return Table("iceberg_tables", MetaData(), autoload_with=self.catalog.engine)
        except NoSuchTableError as error:
            raise ConfigError(
                f"the database of catalog {self.name} holds no Iceberg catalog",
                hint="check the uri of the catalog; its database has no table iceberg_tables",
            ) from error

    def _select(self, name: Name | None) -> list[Mapping[Any, Any]]:
        from sqlalchemy import select

        table = self.table()
        query = select(table).where(table.c.catalog_name == self.catalog.name)
        if name is not None:
            query = query.where(
                table.c.table_namespace == ".".join(name[:-1]), table.c.table_name == name[-1]
            )
        with self.catalog.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _entry(self, row: Mapping[Any, Any]) -> CatalogEntry:
        name = _name(row)
        is_view = row.get("iceberg_type") == "VIEW"
        if not row["metadata_location"]:
            raise without_metadata(self.name, name)
        access = dict(self.catalog.properties)
        return CatalogEntry(self.name, name, is_view, row["metadata_location"], access)


def _name(row: Mapping[Any, Any]) -> Name:
    return (*row["table_namespace"].split("."), row["table_name"])
