"""The tables of the store in a relational database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from lakesweep.store.backends.rows import MAX_NAME_BYTES, MAX_REALM_BYTES, ObjectRow

METADATA = MetaData()
_MYSQL = ("mysql", "mariadb")
#: A table without transactions, or with keys limited to 767 bytes, would be useless.
_OPTIONS: Mapping[str, Any] = {
    f"{name}_{key}": value
    for name in _MYSQL
    for key, value in (("engine", "InnoDB"), ("row_format", "DYNAMIC"))
}


def _key_bytes(length: int) -> TypeEngine[bytes]:
    return LargeBinary(length).with_variant(mysql.VARBINARY(length), *_MYSQL)


SCHEMA = Table(
    "lakesweep_schema",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    **_OPTIONS,
)

# Realms and names are bytes, not text: no collation can confuse them.
REFERENCES = Table(
    "lakesweep_references",
    METADATA,
    Column("realm", _key_bytes(MAX_REALM_BYTES), primary_key=True),
    Column("name", _key_bytes(MAX_NAME_BYTES), primary_key=True),
    Column("pointer", BigInteger),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("recent", LargeBinary, nullable=False),
    **_OPTIONS,
)

# The value comes last, so that scanning the other columns does not read through it.
OBJECTS = Table(
    "lakesweep_objects",
    METADATA,
    Column("realm", _key_bytes(MAX_REALM_BYTES), primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("type", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("token", BigInteger),
    Column("value", LargeBinary().with_variant(mysql.MEDIUMBLOB(), *_MYSQL), nullable=False),
    **_OPTIONS,
)

#: In the order of the fields that they are read into.
ROW_COLUMNS = ", ".join(ObjectRow._fields)
REFERENCE_COLUMNS = ("name", "pointer", "version", "created_at", "recent")


def other_columns(table: Table) -> Sequence[Column[Any]]:
    """The columns that are not part of the key."""
    return [column for column in table.columns if not column.primary_key]


def new_values(table: Table, row: Any) -> Mapping[str, Any]:
    """What a row sets when it replaces another."""
    return {column.name: row[column.name] for column in other_columns(table)}
