"""Batched reads: 10,000 objects of 300 bytes, against a bare SELECT of the same rows.

The bare SELECT asks the driver for the same ids, 1,000 a statement, and leaves the rows as they
come. The store checks every row, decodes it, and hands out typed objects in the order asked for.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from sqlalchemy import make_url

from benchmarks.contest import hold
from lakesweep.clock import SystemClock
from lakesweep.store.backends.rows import RowKey
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.objects.object_types import ObjectTypes
from lakesweep.store.objects.objects import Objects
from tests.database_servers import DatabaseServer, connect, mariadb_server, postgresql_server
from tests.stores import CountingIds

_OBJECTS = 10_000
_BATCH = 1_000
_ROUNDS = 25
_REALM = "acme"
_SELECT = "SELECT id, part, type, created_at, token, value FROM lakesweep_objects WHERE realm = "


class Thing(msgspec.Struct, frozen=True):
    """About as large as the description of a table."""

    name: str
    owner: str
    location: str
    size_bytes: int
    digest: bytes
    note: str


def _things() -> dict[int, Thing]:
    source = random.Random(7)
    return {
        number << 20: Thing(
            f"table_{number}",
            "analytics",
            f"s3://lake/warehouse/analytics/table_{number}/metadata",
            source.randrange(2**40),
            source.randbytes(32),
            "x" * 120,
        )
        for number in range(_OBJECTS)
    }


def _in_batches(
    ids: Sequence[int], select: Callable[[Sequence[int]], Sequence[Any]]
) -> Callable[[], int]:
    def read() -> int:
        rows: list[Any] = []
        for start in range(0, len(ids), _BATCH):
            rows += select(ids[start : start + _BATCH])
        return len(rows)

    return read


def _sqlite_select(url: str) -> Callable[[Sequence[int]], Sequence[Any]]:
    connection = sqlite3.connect(str(make_url(url).database))
    marks = ",".join("?" * _BATCH)

    def select(ids: Sequence[int]) -> Sequence[Any]:
        statement = f"{_SELECT} ? AND part = 0 AND id IN ({marks})"
        return connection.execute(statement, (_REALM.encode(), *ids)).fetchall()

    return select


def _postgresql_select(url: str) -> Callable[[Sequence[int]], Sequence[Any]]:
    connection = connect(url)
    connection.execute("ANALYZE")  # otherwise this SELECT reads the whole realm each time

    def select(ids: Sequence[int]) -> Sequence[Any]:
        statement = f"{_SELECT} %s AND part = 0 AND id = ANY(%s)"
        rows: Sequence[Any] = connection.execute(statement, (_REALM.encode(), list(ids))).fetchall()
        return rows

    return select


def _mariadb_select(url: str) -> Callable[[Sequence[int]], Sequence[Any]]:
    cursor = connect(url).cursor()

    def select(ids: Sequence[int]) -> Sequence[Any]:
        cursor.execute(f"{_SELECT} %s AND part = 0 AND id IN %s", (_REALM.encode(), ids))
        rows: Sequence[Any] = cursor.fetchall()
        return rows

    return select


def _compare(
    title: str, url: str, open_select: Callable[[str], Callable[[Sequence[int]], Sequence[Any]]]
) -> None:
    backend = SqlBackend(url)
    backend.init_schema()
    types = ObjectTypes({"thing": Thing})
    objects = Objects(backend, _REALM, types, SystemClock(), CountingIds())
    objects.write_many(_things())
    ids = list(_things())
    random.Random(3).shuffle(ids)
    keys = [RowKey(number) for number in ids]
    contenders = {
        "SELECT by the driver": _in_batches(ids, open_select(url)),
        "Backend.fetch": lambda: len(backend.fetch(_REALM, keys)),
        "Objects.fetch_many": lambda: len(objects.fetch_many(ids, Thing)),
    }
    hold(title, _OBJECTS, contenders, _ROUNDS)
    backend.close()


@contextmanager
def _sqlite_file() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'store.db'}"


def main() -> None:
    with ExitStack() as stack:
        _compare("SQLite", stack.enter_context(_sqlite_file()), _sqlite_select)
        postgresql: DatabaseServer = stack.enter_context(postgresql_server())
        _compare("PostgreSQL", postgresql.new_database(), _postgresql_select)
        mariadb: DatabaseServer = stack.enter_context(mariadb_server())
        _compare("MariaDB", mariadb.new_database(), _mariadb_select)


if __name__ == "__main__":
    main()
