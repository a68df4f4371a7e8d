"""Pointers in databases: SQL and JDBC catalogs, and catalogs in DynamoDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from lakesweep.clock import Clock, micros
from lakesweep.errors import NotFoundError
from lakesweep.iceberg.commits.catalog_pointer import CatalogPointer, no_answer, refused_by_aws
from lakesweep.iceberg.commits.pointer_commit import PointedFile
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.generic_catalog import client_error
from lakesweep.untrusted.documents import JsonObject

if TYPE_CHECKING:
    from sqlalchemy import Connection, Update

    from lakesweep.iceberg.dynamodb_catalog import DynamoDbCatalogAdapter
    from lakesweep.iceberg.sql_catalog import SqlCatalogAdapter


@dataclass(frozen=True)
class SqlPointer(CatalogPointer):
    """A row of a SQL catalog, of PyIceberg's or Java's schema."""

    adapter: SqlCatalogAdapter

    def swap(self, before: str, after: str, _: RawDocument, /) -> bool:
        from sqlalchemy.exc import SQLAlchemyError

        self.adapter.pace()
        try:
            statement = self._statement(before, after)
            with self.adapter.catalog.engine.connect() as connection:
                return self._swap(connection, statement)
        except SQLAlchemyError as error:
            # Before the commit was sent, a database forgets what a transaction did.
            raise client_error(self.adapter.name, self.table, error) from error

    def _swap(self, connection: Connection, statement: Update) -> bool:
        from sqlalchemy.exc import SQLAlchemyError

        changed = connection.execute(statement).rowcount
        if changed != 1:
            connection.rollback()
            return False
        try:
            connection.commit()
        except SQLAlchemyError as error:
            raise no_answer(self, error) from error
        return True

    def _statement(self, before: str, after: str) -> Update:
        from sqlalchemy import or_, update

        table = self.adapter.table()
        statement = update(table).where(
            table.c.catalog_name == self.adapter.catalog.name,
            table.c.table_namespace == ".".join(self.table[:-1]),
            table.c.table_name == self.table[-1],
            table.c.metadata_location == before,
        )
        if "iceberg_type" in table.c:
            kind = table.c.iceberg_type
            statement = statement.where(or_(kind == "TABLE", kind.is_(None)))
        return statement.values(metadata_location=after, previous_metadata_location=before)


@dataclass(frozen=True)
class DynamoDbPointer(CatalogPointer):
    """An item of a catalog in DynamoDB."""

    adapter: DynamoDbCatalogAdapter
    clock: Clock

    def look(self) -> PointedFile:
        found = super().look()
        item = self.adapter.ask(self.table, self._item)
        return PointedFile(str(item["p.metadata_location"]["S"]), found.stores)

    def swap(self, before: str, after: str, _: RawDocument, /) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        item = self.adapter.ask(self.table, self._item)
        if item.get("p.metadata_location", {}).get("S") != before or "v" not in item:
            return False
        try:
            self.adapter.catalog.dynamodb.update_item(**self._request(item, before, after))
        except ClientError as error:
            return refused_by_aws(self, error, "ConditionalCheckFailedException")
        except BotoCoreError as error:
            raise no_answer(self, error) from error
        return True

    def _item(self) -> JsonObject:
        """The item as it is now: PyIceberg's own reads may be stale."""
        answer = self.adapter.catalog.dynamodb.get_item(
            TableName=self.adapter.catalog.dynamodb_table_name,
            ConsistentRead=True,
            Key=self._key(),
        )
        if "Item" not in answer:
            raise NotFoundError(f"{self.name} was dropped in the meantime")
        return dict(answer["Item"])

    def _key(self) -> JsonObject:
        database, table = self.table
        return {"identifier": {"S": f"{database}.{table}"}, "namespace": {"S": database}}

    def _request(self, item: JsonObject, before: str, after: str) -> JsonObject:
        now_ms = micros(self.clock.now()) // 1000
        return {
            "TableName": self.adapter.catalog.dynamodb_table_name,
            "Key": self._key(),
            "ConditionExpression": "#v = :old AND #location = :before",
            "UpdateExpression": (
                "SET #v = :new, #updated = :now, #location = :after, #previous = :before"
            ),
            "ExpressionAttributeNames": {
                "#v": "v",
                "#updated": "updated_at",
                "#location": "p.metadata_location",
                "#previous": "p.previous_metadata_location",
            },
            "ExpressionAttributeValues": {
                ":old": item["v"],
                ":new": {"S": str(uuid4())},
                ":now": {"N": str(now_ms)},
                ":before": {"S": before},
                ":after": {"S": after},
            },
        }
