"""Find tables and views by identifier, in all catalogs that are configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lakesweep.errors import UsageError
from lakesweep.iceberg.catalog_entries import CatalogEntry
from lakesweep.iceberg.catalogs import IcebergCatalog, known_catalogs, open_catalog, storage_options
from lakesweep.iceberg.metadata import TableMetadata, load_metadata
from lakesweep.iceberg.table_identifier import is_address, metadata_path, split_identifier
from lakesweep.storage.stores import with_access

if TYPE_CHECKING:
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class TargetTable:
    """The table or view that a command names. `entry` is None if an address was given."""

    name: str
    metadata: Metadata
    stores: Stores = field(repr=False)
    entry: CatalogEntry | None = None

    @property
    def what(self) -> str:
        """`table` or `view`."""
        return "table" if isinstance(self.metadata, TableMetadata) else "view"


class IcebergTables:
    """Tables and views by name or address."""

    def __init__(self, stores: Stores, catalogs: Mapping[str, Mapping[str, str]]) -> None:
        self._stores = stores
        self._properties = catalogs
        self._catalogs: dict[str, IcebergCatalog] = {}

    def find(self, ref: str) -> TargetTable:
        """Find a table or view by its REF."""
        if is_address(ref):
            path = metadata_path(self._stores, ref)
            return TargetTable(path, load_metadata(self._stores, path), self._stores)
        catalog, *name = split_identifier(ref)
        entry = self._open(catalog).find(tuple(name))
        stores = self._stores_for(entry)
        return TargetTable(
            entry.full_name, load_metadata(stores, entry.metadata_path), stores, entry
        )

    def drop(self, target: TargetTable) -> None:
        """Drop the name of the table from its catalog."""
        if target.entry is None:
            raise UsageError(
                f"{target.name} is an address; there is no name to drop",
                hint="run without --drop, or name the table as catalog.namespace.table",
            )
        self._open(target.entry.catalog).drop(target.entry)

    def refresh(self, target: TargetTable) -> TargetTable:
        """The same table as its catalog lists it now."""
        return target if target.entry is None else self.find(target.entry.full_name)

    @cached_property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The properties of all configured catalogs and of those in PyIceberg's configuration."""
        return {**known_catalogs(), **self._properties}

    def _open(self, name: str) -> IcebergCatalog:
        if name not in self._catalogs:
            self._catalogs[name] = open_catalog(name, self.catalogs.get(name, {}))
        return self._catalogs[name]

    def _stores_for(self, entry: CatalogEntry) -> Stores:
        return with_access(self._stores, storage_options(entry.access))
