"""The dialect of PostgreSQL, through psycopg.

Scans fetch a page as one row of binary arrays: the server writes these faster than single rows,
and NumPy reads them without creating a Python object per field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sqlalchemy import URL, Insert, Table
from sqlalchemy.dialects import postgresql

from lakesweep.errors import SchemaError, StoreError, UnreachableError
from lakesweep.store.backends.rows import (
    HeadPage,
    Ids,
    IdSpan,
    ObjectHead,
    RowKey,
    dictionary_encode,
)
from lakesweep.store.backends.sql.dialect import (
    ANSWER_SECONDS,
    BUSY,
    FULL,
    IDLE_SECONDS,
    LONG_ANSWER_SECONDS,
    REFUSED,
    UNKNOWN,
    UNREACHABLE,
    Dialect,
    DriverFailure,
    FetchHeads,
    NewCommit,
    fetch_all,
    file_problem,
    is_readable,
)
from lakesweep.store.backends.sql.tables import OBJECTS, ROW_COLUMNS, new_values

_PASSWORD = DriverFailure(StoreError, "check user and password in the URL of the store")
_DATABASE = DriverFailure(StoreError, "check the URL of the store, or create it: createdb NAME")
_RIGHTS = DriverFailure(StoreError, "grant the user of the store all rights on its tables")
_STANDBY = DriverFailure(StoreError, "use the URL of the primary server, which accepts writes")
_CROWDED = DriverFailure(
    UnreachableError, "raise max_connections of the server, or run fewer processes"
)

# Messages of a server that refuses the connection, for which the driver has no code. The first
# match counts: a server with too many connections may also name a role or a database.
_REFUSALS: Mapping[str, DriverFailure] = {
    "too many": _CROWDED,
    "remaining connection slots": _CROWDED,
    "password": _PASSWORD,
    "authentication": _PASSWORD,
    'role "': _PASSWORD,
    "pg_hba": _PASSWORD,
    "permission denied": _RIGHTS,
    "does not exist": _DATABASE,
}
# What a server reports was rolled back, except for these states and the classes below them.
_KNOWN: Mapping[str, DriverFailure] = {
    **dict.fromkeys(("40001", "40P01", "55P03", "57014", "25P03"), BUSY),
    "42P01": DriverFailure(SchemaError),
    "42501": _RIGHTS,
    "25006": _STANDBY,
    "53100": FULL,
    "53300": _CROWDED,
}
_UNCERTAIN_CLASSES = frozenset({"08", "57", "58", "XX"})
_COMPLETION_UNKNOWN = "40003"

# Without statistics on a new table, the planner would rather read a whole realm than look up many
# ids. OFFSET makes it look up one key after another.
FETCH_ROWS = (
    f"SELECT {ROW_COLUMNS} FROM unnest(%s::bigint[], %s::integer[]) AS wanted (i, p), LATERAL"  # noqa: S608
    f" (SELECT {ROW_COLUMNS} FROM {OBJECTS.name} WHERE realm = %b AND id = i AND part = p OFFSET 0)"
    " AS found"
)

_FETCH_FIRSTS = FETCH_ROWS.replace(", %s::integer[]) AS wanted (i, p)", ") AS wanted (i)").replace(
    "part = p", "part = 0"
)


def _unless_set(name: str, default: str, wanted: str) -> str:
    """A statement that changes a setting of the session, unless it was changed already."""
    return (
        f"SELECT set_config('{name}', '{wanted}', false) "
        f"WHERE current_setting('{name}') = '{default}'"
    )


_PATIENCE = _unless_set("lock_timeout", "0", "60s")
# A client that is stopped, or whose machine is gone, would keep its locks for hours.
_IDLENESS = _unless_set("idle_in_transaction_session_timeout", "0", f"{IDLE_SECONDS}s")
# Every query finds its rows by key, in key order. Without statistics on a new table, the planner
# would expect few rows in a realm, and sort them for each page of a scan.
_BY_KEY = _unless_set("enable_sort", "on", "off")
_DELETE_ROW = f"DELETE FROM {OBJECTS.name} WHERE realm = %b AND id = %b AND part = %b"  # noqa: S608


@cache
def _commit(swap: str, upsert: str, rows: int) -> str:
    """A swap and, if it succeeded, the rows, in one statement."""
    insert, _, rest = upsert.partition(" VALUES ")
    row, _, replace = rest.partition(" ON CONFLICT")
    return (
        f"WITH swapped AS ({swap} RETURNING 1), written AS ({insert} SELECT * FROM "  # noqa: S608
        f"(VALUES {', '.join([row] * rows)}) AS new WHERE EXISTS (SELECT FROM swapped)"
        f" ON CONFLICT{replace}) SELECT count(*) FROM swapped"
    )


class PostgreSql(Dialect):
    """Rows use the binary format, which avoids writing bytes as text."""

    name = "postgresql"
    driver = "psycopg"
    extra = "postgresql"
    example = "postgresql://user:password@host:5432/database"
    # Whether replicas confirm each commit is left as the server has it.
    on_connect = (_unless_set("synchronous_commit", "off", "on"), _PATIENCE, _IDLENESS, _BY_KEY)
    # What one session wrote without waiting for the disk precedes later writes of others in the
    # log, and the log is synced in order.
    on_relaxed = ("SET synchronous_commit = off", _PATIENCE, _IDLENESS)
    # Two sessions that create the same table at once would conflict.
    on_create = ("SELECT pg_advisory_xact_lock(7823450912)",)
    connect_options: ClassVar[Mapping[str, Any]] = {
        "autocommit": True,
        "connect_timeout": 10,
        "read_timeout": ANSWER_SECONDS,
        # A server that disappeared silently is noticed after a minute.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    long_running_options: ClassVar[Mapping[str, Any]] = {"read_timeout": LONG_ANSWER_SECONDS}
    cursor_options: ClassVar[Mapping[str, Any]] = {"binary": True}
    file_options = frozenset({"sslcert", "sslkey", "sslcrl", "sslcrldir"})
    refused_options = frozenset(
        {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}
    )
    max_value_bytes = 1_000_000_000
    at_once_rows = 30
    at_once_bytes = 1_000_000

    def check_url(self, url: URL) -> str | None:
        root = url.query.get("sslrootcert", "system")
        # The word means the certificates of the system.
        problem = None if root == "system" else file_problem("sslrootcert", str(root))
        return problem or super().check_url(url)

    def connect(self, driver: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        from lakesweep.store.backends.sql import postgresql_connection

        del driver
        others = {name: value for name, value in options.items() if name != "read_timeout"}
        return postgresql_connection.connect(float(options["read_timeout"]), *arguments, **others)

    def insert_new(self, table: Table) -> Insert:
        return postgresql.insert(table).on_conflict_do_nothing()

    def upsert(self, table: Table) -> Insert:
        insert, key = postgresql.insert(table), table.primary_key.columns
        new = new_values(table, insert.excluded)
        return insert.on_conflict_do_update(index_elements=key, set_=new)

    def is_silent(self, connection: Any) -> bool:
        return not is_readable(connection.fileno())

    def message_of(self, error: Exception) -> str:
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        return said or super().message_of(error)

    def refused(self, error: Exception, url: URL) -> DriverFailure:
        del url
        said = str(error).partition("FATAL:")[2]
        return next((_REFUSALS[words] for words in _REFUSALS if words in said), UNREACHABLE)

    def failed(self, error: Exception) -> DriverFailure:
        state = getattr(error, "sqlstate", None)
        if state is None:
            return UNKNOWN if _came_from_connection(error) else REFUSED
        if state in _KNOWN:
            return _KNOWN[state]
        is_uncertain = state[:2] in _UNCERTAIN_CLASSES or state == _COMPLETION_UNKNOWN
        return UNKNOWN if is_uncertain else REFUSED

    def commit_at_once(self, new: NewCommit, cursor: Any) -> bool:
        cursor.execute(_commit(new.swap.text, new.upsert, len(new.rows)), new.values)
        ((swapped,),) = cursor.fetchall()
        return bool(swapped)

    def fetch_rows(
        self, realm: bytes, keys: Sequence[RowKey], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        # As text, which is faster for the driver than inspecting each number.
        ids, parts = (",".join(map(int.__repr__, numbers)) for numbers in zip(*keys, strict=True))
        return fetch_all(FETCH_ROWS, (f"{{{ids}}}", f"{{{parts}}}", realm), cursor)

    def fetch_first_rows(
        self, realm: bytes, ids: Sequence[int], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        return fetch_all(_FETCH_FIRSTS, (f"{{{','.join(map(str, ids))}}}", realm), cursor)

    def heads_fetcher(self) -> FetchHeads:
        return fetch_page

    def delete_rows(self, realm: bytes, keys: Sequence[RowKey], cursor: Any) -> None:
        # Sent as one request, without waiting for each response.
        cursor.executemany(_DELETE_ROW, [(realm, number, part) for number, part in keys])


def _came_from_connection(error: Exception) -> bool:
    from psycopg import InterfaceError, InternalError, OperationalError

    return isinstance(error, OperationalError | InterfaceError | InternalError)


FETCH_PAGE = (
    "SELECT array_send(array_agg(id)), array_send(array_agg(part)),"  # noqa: S608
    " array_send(array_agg(created_at)), array_agg(type),"
    " array_send(array_agg(token IS NOT NULL)), array_agg(token) FILTER (WHERE token IS NOT NULL)"
    " FROM (SELECT id, part, type, created_at, token"
    f" FROM {OBJECTS.name} WHERE realm = %b"
    " AND id BETWEEN %b AND %b ORDER BY id, part LIMIT {rows}) AS page"
)
# A header of dimensions, flags, type, length and first index, then each element after its length.
_HEADER_BYTES = 20
_FORMATS = {kind: np.dtype([("length", ">i4"), ("value", kind)]) for kind in (">i8", ">i4", "?")}


@dataclass(frozen=True, slots=True)
class _Rest:
    """The columns of a page that only the few picked rows need."""

    ids: Ids
    parts: Ids
    types: Sequence[str]
    created_at: Ids
    tokens: Sequence[int | None]

    def pick(self, positions: Iterable[int]) -> Sequence[ObjectHead]:
        return [
            ObjectHead(
                int(self.ids[position]),
                int(self.parts[position]),
                self.types[position],
                int(self.created_at[position]),
                self.tokens[position],
            )
            for position in positions
        ]


def fetch_page(realm: bytes, span: IdSpan, rows: int, cursor: Any) -> HeadPage | None:
    """The first objects of a span, in about this many rows; None if there are none."""
    while True:
        cursor.execute(FETCH_PAGE.format(rows=rows), (realm, span.first, span.last))
        ((ids, *columns),) = cursor.fetchall()
        if ids is None:
            return None
        numbers = _array(ids, ">i8")
        # The last object of a full page may continue after it.
        if len(numbers) < rows:
            return _page(numbers, columns, len(numbers))
        end = int(np.searchsorted(numbers, numbers[-1]))
        if end:
            return _page(numbers, columns, end)
        rows *= 2  # one object fills the page


def _page(ids: Ids, columns: Sequence[Any], end: int) -> HeadPage:
    parts, created_at, names, has_token, given = columns
    moments, types = _array(created_at, ">i8")[:end], names[:end]
    tokens = _tokens(_array(has_token, "?"), given or ())
    rest = _Rest(ids, _array(parts, ">i4"), types, moments, tokens)
    return HeadPage(ids[:end], moments, *dictionary_encode(types), rest.pick)


def _tokens(flags: npt.NDArray[Any], given: Sequence[int]) -> Sequence[int | None]:
    tokens: list[int | None] = [None] * len(flags)
    for position, token in zip(np.flatnonzero(flags).tolist(), given, strict=True):
        tokens[position] = token
    return tokens


def _array(data: bytes, kind: str) -> Any:
    """The elements of an array without nulls, in the server's binary format."""
    elements = np.frombuffer(data, _FORMATS[kind], offset=_HEADER_BYTES)
    return elements["value"].astype(np.bool_ if kind == "?" else np.int64)
