"""The tables of the store in a relational database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table

from lakesweep.store.backend import MAX_NAME_BYTES, MAX_REALM_BYTES

METADATA = MetaData()

SCHEMA = Table(
    "lakesweep_schema",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

# Realms and names are bytes, not text: no collation can take one for another.
REFERENCES = Table(
    "lakesweep_references",
    METADATA,
    Column("realm", LargeBinary(MAX_REALM_BYTES), primary_key=True),
    Column("name", LargeBinary(MAX_NAME_BYTES), primary_key=True),
    Column("pointer", BigInteger),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("recent", LargeBinary, nullable=False),
)

# The value comes last, so that a scan of the other columns need not read through it.
OBJECTS = Table(
    "lakesweep_objects",
    METADATA,
    Column("realm", LargeBinary(MAX_REALM_BYTES), primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("type", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("token", BigInteger),
    Column("value", LargeBinary, nullable=False),
)
