"""What DuckDB does with a catalog: create, insert, read, and see what others wrote."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import duckdb

_EXTENSIONS = ("avro", "httpfs", "iceberg")


def main(url: str) -> None:
    """Work on a catalog; the last line that is printed says what was read."""
    connection = duckdb.connect(
        config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
    )
    for name in _EXTENSIONS:
        connection.execute(f"LOAD '{_file(name)}'")
    connection.execute(
        "ATTACH 'shop' AS shop (TYPE iceberg, ENDPOINT "
        f"'{url}/iceberg', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')"
    )
    _tell(connection, "SELECT sum(id), count(*) FROM shop.n.theirs")
    connection.execute("CREATE SCHEMA shop.duck")
    connection.execute("CREATE TABLE shop.duck.t (id BIGINT, name VARCHAR)")
    connection.execute("INSERT INTO shop.duck.t VALUES (1, 'a'), (2, 'b')")
    connection.execute("INSERT INTO shop.duck.t SELECT range, 'more' FROM range(3, 10)")
    _tell(connection, "SELECT sum(id), count(*) FROM shop.duck.t")


def _tell(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    sys.stdout.write(f"{connection.execute(query).fetchone()}\n")


def _file(name: str) -> Path:
    """The file of an extension in its package."""
    folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
    return next(folder.rglob("*.duckdb_extension"))


if __name__ == "__main__":
    main(sys.argv[1])
