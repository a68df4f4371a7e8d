"""PostgreSQL, through psycopg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from sqlalchemy import URL, Insert, Table
from sqlalchemy.dialects import postgresql

from lakesweep.errors import SchemaError, StoreError, UnreachableError
from lakesweep.store.backend import RowKey
from lakesweep.store.backends.dialect import (
    ANSWER_SECONDS,
    BUSY,
    FULL,
    IDLE_SECONDS,
    LONG_ANSWER_SECONDS,
    REFUSED,
    UNKNOWN,
    UNREACHABLE,
    Dialect,
    Failure,
    FetchHeads,
    NewCommit,
    fetch_all,
)
from lakesweep.store.backends.postgresql_heads import fetch_page
from lakesweep.store.backends.sockets import is_readable
from lakesweep.store.backends.tables import OBJECTS, ROW_COLUMNS, new_values

_PASSWORD = Failure(StoreError, "check user and password in the URL of the store")
_DATABASE = Failure(StoreError, "check the URL of the store, or create it: createdb NAME")
_RIGHTS = Failure(StoreError, "grant the user of the store all rights on its tables")
_STANDBY = Failure(StoreError, "use the URL of the primary server, which can be written")
_CROWDED = Failure(UnreachableError, "raise max_connections of the server, or run fewer processes")

# The words of a server that let nobody in, for which the driver has no code. The first that fit
# count: a server that has too many connections may add of which role, or of which database.
_REFUSALS: Mapping[str, Failure] = {
    "too many": _CROWDED,
    "remaining connection slots": _CROWDED,
    "password": _PASSWORD,
    "authentication": _PASSWORD,
    'role "': _PASSWORD,
    "pg_hba": _PASSWORD,
    "permission denied": _RIGHTS,
    "does not exist": _DATABASE,
}
# What a server reports was undone, but for the states below and the classes behind them.
_KNOWN: Mapping[str, Failure] = {
    **dict.fromkeys(("40001", "40P01", "55P03", "57014", "25P03"), BUSY),
    "42P01": Failure(SchemaError),
    "42501": _RIGHTS,
    "25006": _STANDBY,
    "53100": FULL,
    "53300": _CROWDED,
}
_UNCERTAIN_CLASSES = frozenset({"08", "57", "58", "XX"})
_COMPLETION_UNKNOWN = "40003"

# The planner, which does not know a young table yet, would rather read a whole realm than look for
# many ids. OFFSET makes it look up one key after another.
FETCH_ROWS = (
    f"SELECT {ROW_COLUMNS} FROM unnest(%s::bigint[], %s::integer[]) AS wanted (i, p), LATERAL"  # noqa: S608
    f" (SELECT {ROW_COLUMNS} FROM {OBJECTS.name} WHERE realm = %b AND id = i AND part = p OFFSET 0)"
    " AS found"
)


def _unless_set(name: str, default: str, wanted: str) -> str:
    """A statement that changes a setting of the session, unless somebody chose another already."""
    return (
        f"SELECT set_config('{name}', '{wanted}', false) "
        f"WHERE current_setting('{name}') = '{default}'"
    )


_PATIENCE = _unless_set("lock_timeout", "0", "60s")
# A client that is stopped, or whose machine is gone, would keep its locks for hours.
_IDLENESS = _unless_set("idle_in_transaction_session_timeout", "0", f"{IDLE_SECONDS}s")
# Whatever is asked for is found by a key, in its order. The planner, which does not know a young
# table yet, would take the rest of a realm for a few rows, and sort it for each page of a scan.
_BY_KEY = _unless_set("enable_sort", "on", "off")
_DELETE_ROW = f"DELETE FROM {OBJECTS.name} WHERE realm = %b AND id = %b AND part = %b"  # noqa: S608


@cache
def _commit(swap: str, upsert: str, rows: int) -> str:
    """A swap and, if there was one, the rows, in one statement."""
    insert, _, rest = upsert.partition(" VALUES ")
    row, _, replace = rest.partition(" ON CONFLICT")
    return (
        f"WITH swapped AS ({swap} RETURNING 1), written AS ({insert} SELECT * FROM "  # noqa: S608
        f"(VALUES {', '.join([row] * rows)}) AS new WHERE EXISTS (SELECT FROM swapped)"
        f" ON CONFLICT{replace}) SELECT count(*) FROM swapped"
    )


class PostgreSql(Dialect):
    """Rows come in the binary format, which has no need to write bytes as text."""

    name = "postgresql"
    driver = "psycopg"
    extra = "postgresql"
    example = "postgresql://user:password@host:5432/database"
    # A replica may be asked to confirm each commit as well; that is left as the server has it.
    on_connect = (_unless_set("synchronous_commit", "off", "on"), _PATIENCE, _IDLENESS, _BY_KEY)
    # What one session wrote without waiting for the disk is in the log before what another writes
    # later, and the log is synced in order.
    on_relaxed = ("SET synchronous_commit = off", _PATIENCE, _IDLENESS)
    # Two that create the same table at once get in each other's way.
    on_create = ("SELECT pg_advisory_xact_lock(7823450912)",)
    connect_options: ClassVar[Mapping[str, Any]] = {
        "autocommit": True,
        "connect_timeout": 10,
        "read_timeout": ANSWER_SECONDS,
        # A server that went away without a word is noticed after a minute.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
    patient_options: ClassVar[Mapping[str, Any]] = {"read_timeout": LONG_ANSWER_SECONDS}
    cursor_options: ClassVar[Mapping[str, Any]] = {"binary": True}
    max_value_bytes = 1_000_000_000
    at_once_rows = 30
    at_once_bytes = 1_000_000

    def connect(self, driver: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        from lakesweep.store.backends import bounded_psycopg

        del driver
        others = {name: value for name, value in options.items() if name != "read_timeout"}
        return bounded_psycopg.connect(float(options["read_timeout"]), *arguments, **others)

    def insert_new(self, table: Table) -> Insert:
        return postgresql.insert(table).on_conflict_do_nothing()

    def upsert(self, table: Table) -> Insert:
        insert, key = postgresql.insert(table), table.primary_key.columns
        new = new_values(table, insert.excluded)
        return insert.on_conflict_do_update(index_elements=key, set_=new)

    def is_silent(self, connection: Any) -> bool:
        return not is_readable(connection.fileno())

    def words(self, error: Exception) -> str:
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        return said or super().words(error)

    def refused(self, error: Exception, url: URL) -> Failure:
        del url
        said = str(error).partition("FATAL:")[2]
        return next((_REFUSALS[words] for words in _REFUSALS if words in said), UNREACHABLE)

    def failed(self, error: Exception) -> Failure:
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
        # As text, which takes the driver less time than to look at each number.
        ids, parts = (",".join(map(int.__repr__, numbers)) for numbers in zip(*keys, strict=True))
        return fetch_all(FETCH_ROWS, (f"{{{ids}}}", f"{{{parts}}}", realm), cursor)

    def heads_fetcher(self) -> FetchHeads:
        return fetch_page

    def delete_rows(self, realm: bytes, keys: Sequence[RowKey], cursor: Any) -> None:
        # They go in one request, and none of them waits for the answer to another.
        cursor.executemany(_DELETE_ROW, [(realm, number, part) for number, part in keys])


def _came_from_connection(error: Exception) -> bool:
    from psycopg import InterfaceError, InternalError, OperationalError

    return isinstance(error, OperationalError | InterfaceError | InternalError)
