"""How relational databases differ, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import sqlite

from lakesweep.errors import SchemaError, StoreError, UnknownOutcomeError, UnreachableError


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one kind of database needs.

    `begin` starts a transaction that will write. `on_connect` runs once a connection, `on_init`
    once before tables are created. `on_relaxed` makes a connection whose writes need not outlive a
    power failure by themselves, but do so with the next write of any other connection. `insert_new`
    skips rows that are there, `upsert` replaces them. `failure` names the error that a driver's
    exception means for a write; UnknownOutcomeError unless it is certain that nothing was changed.
    """

    begin: str
    insert_new: Callable[[Table], Insert]
    upsert: Callable[[Table], Insert]
    failure: Callable[[BaseException], type[StoreError]]
    max_value_bytes: int
    on_connect: tuple[str, ...] = ()
    on_relaxed: tuple[str, ...] = ()
    on_init: tuple[str, ...] = ()
    connect_args: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def _sqlite_insert_new(table: Table) -> Insert:
    return sqlite.insert(table).on_conflict_do_nothing()


def _sqlite_upsert(table: Table) -> Insert:
    insert = sqlite.insert(table)
    others = {column.name: insert.excluded[column.name] for column in _others(table)}
    return insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=others)


def _others(table: Table) -> list[Any]:
    return [column for column in table.columns if not column.primary_key]


# SQLite undoes a statement, or the whole transaction, before it reports one of these.
_SQLITE_UNCHANGED: Mapping[str, type[StoreError]] = {
    "BUSY": UnreachableError,
    "LOCKED": UnreachableError,
    "SCHEMA": UnreachableError,
    **dict.fromkeys(("PERM", "READONLY", "CANTOPEN", "AUTH", "NOTADB", "CORRUPT"), StoreError),
    **dict.fromkeys(("FULL", "NOMEM", "TOOBIG", "CONSTRAINT", "MISMATCH", "RANGE"), StoreError),
}


def _sqlite_failure(error: BaseException) -> type[StoreError]:
    name = getattr(error, "sqlite_errorname", None)
    if name is None:
        return StoreError  # the driver refused the statement, it never ran
    if name == "SQLITE_ERROR":
        return SchemaError if "no such table" in str(error) else StoreError
    return _SQLITE_UNCHANGED.get(name.split("_")[1], UnknownOutcomeError)


DIALECTS: Mapping[str, Dialect] = {
    "sqlite": Dialect(
        # A transaction that reads first and writes later can fail for good when another one
        # wrote in between; one that takes the lock at once just waits.
        begin="BEGIN IMMEDIATE",
        insert_new=_sqlite_insert_new,
        upsert=_sqlite_upsert,
        failure=_sqlite_failure,
        max_value_bytes=1_000_000_000,
        on_connect=("PRAGMA synchronous = FULL",),
        # The log is written in order: whoever syncs it syncs what others wrote before.
        on_relaxed=("PRAGMA synchronous = NORMAL",),
        on_init=("PRAGMA journal_mode = WAL",),
        connect_args={"timeout": 60.0},  # how long a writer waits for the others
    ),
}
