"""The adapter for catalogs in DynamoDB.

PyIceberg's client would create a missing catalog table; ours refuses to.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog.dynamodb import DynamoDbCatalog

from lakesweep.errors import ConfigError
from lakesweep.iceberg.generic_catalog import (
    CatalogEntry,
    GenericCatalogAdapter,
    Name,
    without_metadata,
)


class ExistingDynamoDbCatalog(DynamoDbCatalog):
    """Refuses a missing table: a catalog created just now would look empty."""

    def _ensure_catalog_table_exists_or_create(self) -> None:
        if not self._dynamodb_table_exists():
            raise ConfigError(
                f"there is no DynamoDB table {self.dynamodb_table_name}",
                hint="check the region, the account and dynamodb.table-name of the catalog",
            )


@dataclass(frozen=True)
class DynamoDbCatalogAdapter(GenericCatalogAdapter):
    """The tables of a catalog in DynamoDB, which holds Iceberg tables only."""

    catalog: DynamoDbCatalog

    def find(self, name: Name) -> CatalogEntry:
        database, table = name
        item = self.ask(name, lambda: self.catalog._get_iceberg_table_item(database, table))  # noqa: SLF001
        path = item.get("p.metadata_location", {}).get("S")
        if not path:
            raise without_metadata(self.name, name)
        return CatalogEntry(self.name, name, False, path, dict(self.catalog.properties))

    @property
    def requests_at_once(self) -> int:
        return 8
