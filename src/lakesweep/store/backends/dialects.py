"""The relational databases that can hold a store."""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.store.backends.dialect import Dialect
from lakesweep.store.backends.mysql import MySql
from lakesweep.store.backends.postgresql import PostgreSql
from lakesweep.store.backends.sqlite import Sqlite

#: What a URL begins with, and the database that it means.
DIALECTS: Mapping[str, Dialect] = {
    "sqlite": Sqlite(),
    "postgresql": PostgreSql(),
    "mysql": MySql(),
    "mariadb": MySql(),
}
