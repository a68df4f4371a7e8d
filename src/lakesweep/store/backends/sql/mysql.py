"""The dialect of MariaDB and MySQL, through PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from sqlalchemy import URL, Insert, Table
from sqlalchemy.dialects import mysql

from lakesweep.errors import SchemaError, StoreError, UnreachableError
from lakesweep.store.backends.rows import ObjectHead, RowKey
from lakesweep.store.backends.sql.dialect import (
    ANSWER_SECONDS,
    BUSY,
    FULL,
    IDLE_SECONDS,
    LONG_ANSWER_SECONDS,
    REFUSED,
    UNKNOWN,
    UNREACHABLE,
    Condition,
    Dialect,
    DriverFailure,
    NewCommit,
    is_readable,
)
from lakesweep.store.backends.sql.tables import OBJECTS, new_values

#: The largest row takes four thirds of its size in a statement, which carries bytes as base64.
MIN_PACKET_BYTES = 500_000
_PACKET_HINT = f"set max_allowed_packet of the server to at least {MIN_PACKET_BYTES}"

_DUPLICATE = 1062
_NULL = 1048
_PASSWORD = DriverFailure(StoreError, "check user and password in the URL of the store")
_DATABASE = DriverFailure(StoreError, "check the URL of the store, or run: CREATE DATABASE NAME")
_RIGHTS = DriverFailure(StoreError, "grant the user of the store all rights on its database")
_READ_ONLY = DriverFailure(StoreError, "use the URL of the primary server, which accepts writes")
_CROWDED = DriverFailure(
    UnreachableError, "raise max_connections of the server, or run fewer processes"
)

_REFUSALS: Mapping[int, DriverFailure] = {
    **dict.fromkeys((1045, 1130, 1251, 1698, 2059), _PASSWORD),
    **dict.fromkeys((1040, 1203, 1226), _CROWDED),
    1044: _RIGHTS,
    1049: _DATABASE,
}
# A client that is stopped, or whose machine is gone, would keep its locks for hours. MySQL cannot
# distinguish an idle transaction from an idle connection; the latter is reopened when needed.
_IDLENESS = (
    "SET SESSION wait_timeout = LEAST(@@wait_timeout, 600) /*M!100300 , idle_transaction_timeout ="
    f" IF(@@idle_transaction_timeout = 0, {IDLE_SECONDS}, @@idle_transaction_timeout) */"
)
# A statement that ends with one of these was rolled back, with its transaction.
_KNOWN: Mapping[int, DriverFailure] = {
    # Lock wait, deadlock, changed since it was read, interrupted, timed out; in clusters, not
    # ready, or rejected by the others.
    **dict.fromkeys((1205, 1213, 1020, 1317, 1969, 3024, 1047, 3101), BUSY),
    **dict.fromkeys((1290, 1792, 1836), _READ_ONLY),
    **dict.fromkeys((1021, 1114), FULL),
    **dict.fromkeys((1044, 1142, 1143, 1227), _RIGHTS),
    1146: DriverFailure(SchemaError),
    1153: DriverFailure(StoreError, _PACKET_HINT),
    1665: DriverFailure(StoreError, "set binlog_format of the server to ROW or MIXED"),
}


@cache
def _commit(swap: str, upsert: str, rows: int) -> str:
    """A swap and new rows in one request, which fails half-way if the swap matched nothing."""
    insert, _, rest = upsert.partition(" VALUES ")
    row = rest.partition(" ON DUPLICATE")[0]
    first = row.replace("%s", "IF(ROW_COUNT() = 1, %s, NULL)", 1)
    values = ", ".join([first, *[row] * (rows - 1)])
    return f"BEGIN; {swap}; {insert} VALUES {values}; COMMIT"


class MySql(Dialect):
    """Bytes are escaped into the text of a statement, whose length is limited."""

    name = "mysql"
    driver = "pymysql"
    extra = "mysql"
    example = "mysql://user:password@host:3306/database"
    # Values that are too long or out of range are errors and never truncated. Read committed takes
    # fewer locks than the default, which also locks rows that do not exist.
    on_connect = (
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        _IDLENESS,
    )
    on_relaxed = on_connect
    connect_options: ClassVar[Mapping[str, Any]] = {
        "autocommit": True,
        "charset": "utf8mb4",
        "binary_prefix": True,
        "connect_timeout": 10,
        "read_timeout": ANSWER_SECONDS,
        "write_timeout": ANSWER_SECONDS,
    }
    long_running_options: ClassVar[Mapping[str, Any]] = {"read_timeout": LONG_ANSWER_SECONDS}
    file_options = frozenset({"ssl_ca", "ssl_cert", "ssl_key", "ssl_capath", "read_default_file"})
    refused_options = frozenset(
        {
            *("autocommit", "binary_prefix", "conv", "cursorclass", "auth_plugin_map", "ssl"),
            *("compress", "named_pipe", "defer_connect", "use_unicode", "sql_mode"),
        }
    )
    max_value_bytes = 16_777_215
    # From a thousand values on, MariaDB builds a table of them and may no longer use the index.
    batch_rows = 900
    # The driver splits what is written by itself, but not what is queried.
    names_bytes = 200_000
    batch_bytes = 300_000
    at_once_rows = 30
    at_once_bytes = 300_000

    def connect(self, driver: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        from lakesweep.store.backends.sql.mysql_connection import CompactConnection

        del driver
        return CompactConnection(*arguments, **options)

    def setting_problem(self, cursor: Any) -> str | None:
        cursor.execute("SELECT @@max_allowed_packet")
        ((size,),) = cursor.fetchall()
        return None if size >= MIN_PACKET_BYTES else _PACKET_HINT

    def insert_new(self, table: Table) -> Insert:
        # INSERT IGNORE would also ignore that a value is too long, and truncate it.
        return mysql.insert(table)

    def insert_new_many(self, table: Table) -> Insert:
        last = list(table.columns)[-1]
        return mysql.insert(table).on_duplicate_key_update({last.name: last})

    def upsert(self, table: Table) -> Insert:
        insert = mysql.insert(table)
        return insert.on_duplicate_key_update(new_values(table, insert.inserted))

    def is_duplicate(self, error: Exception) -> bool:
        return _code(error) == _DUPLICATE

    def is_silent(self, connection: Any) -> bool:
        socket = connection._sock  # noqa: SLF001 (there is no public attribute)
        return socket is not None and not is_readable(socket.fileno())

    def connect_arguments(
        self, url: URL, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        from pymysql.constants import CLIENT

        flags = int(options.get("client_flag", 0)) | CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
        return super().connect_arguments(url, arguments, {**options, "client_flag": flags})

    def refused(self, error: Exception, url: URL) -> DriverFailure:
        del url
        return _REFUSALS.get(_code(error), UNREACHABLE)

    def failed(self, error: Exception) -> DriverFailure:
        known = _KNOWN.get(_code(error))
        if known is not None:
            return known
        return REFUSED if _is_about_statement(error) else UNKNOWN

    def commit_at_once(self, new: NewCommit, cursor: Any) -> bool:
        try:
            cursor.execute(_commit(new.swap.text, new.upsert, len(new.rows)), new.values)
            while cursor.nextset():
                pass  # an error of a later statement is raised here
        except Exception as error:
            if not (self.is_duplicate(error) or _is_without_swap(error)):
                raise
            cursor.execute("ROLLBACK")
            # Inserting is faster than replacing, and usually enough.
            return self.is_duplicate(error) and self.commit_in_steps(new, cursor)
        return True

    def delete_expected(
        self, statement: str, realm: bytes, expected: Sequence[ObjectHead], cursor: Any
    ) -> int:
        # The driver would send one statement per row, and the server would sync its log after each.
        # The keys come first, because the index is used only for them.
        del statement
        where = self.has_key(realm, [RowKey(each.id, each.part) for each in expected])
        heads = ",".join(map(_head, expected))
        text = (
            f"DELETE FROM {OBJECTS.name} WHERE {where.text}"  # noqa: S608
            f" AND (id, part, created_at, IFNULL(token, -1)) IN ({heads})"
        )
        return int(cursor.execute(text, where.values))

    def is_among(self, values: Sequence[object]) -> Condition:
        # Numbers need no escaping, which costs the driver one Python call each.
        if type(values[0]) is int:
            return Condition(",".join(map(int.__repr__, values)), ())
        return super().is_among(values)


def _head(head: ObjectHead) -> str:
    token = -1 if head.token is None else head.token
    return f"({head.id:d},{head.part:d},{head.created_at:d},{token:d})"


def _code(error: Exception) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def _is_without_swap(error: Exception) -> bool:
    return _code(error) == _NULL and "'realm'" in str(error)


def _is_about_statement(error: Exception) -> bool:
    from pymysql.err import DataError, IntegrityError, NotSupportedError, ProgrammingError

    return isinstance(error, DataError | IntegrityError | NotSupportedError | ProgrammingError)
