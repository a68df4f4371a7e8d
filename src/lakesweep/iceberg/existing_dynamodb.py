"""PyIceberg's catalog in DynamoDB, which is never created by looking for it."""

from __future__ import annotations

from pyiceberg.catalog.dynamodb import DynamoDbCatalog

from lakesweep.errors import ConfigError


class ExistingDynamoDbCatalog(DynamoDbCatalog):
    """Refuses a table that is not there: a catalog that was made just now would look empty."""

    def _ensure_catalog_table_exists_or_create(self) -> None:
        if not self._dynamodb_table_exists():
            raise ConfigError(
                f"there is no DynamoDB table {self.dynamodb_table_name}",
                hint="check the region, the account and dynamodb.table-name of the catalog",
            )
