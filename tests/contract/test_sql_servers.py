"""Stores on real servers: what each trouble is called, and that it changed nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import pymysql
import pytest
from sqlalchemy import make_url

from lakesweep.errors import (
    SchemaError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from lakesweep.store.backends import contract
from lakesweep.store.backends.rows import (
    MAX_NAME_BYTES,
    MAX_REALM_BYTES,
    MAX_VALUE_BYTES,
    ObjectRow,
    Reference,
)
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.backends.sql.database import MAX_CONNECTIONS
from lakesweep.store.backends.sql.dialect import IDLE_SECONDS, Dialect
from lakesweep.store.backends.sql.postgresql import FETCH_PAGE, FETCH_ROWS
from tests.database_servers import PASSWORD, DatabaseServer, connect, paused
from tests.processes import free_port

ROW = ObjectRow(1, 0, "thing", 5, None, b"value")
LARGE = ROW._replace(id=2, value=bytes(MAX_VALUE_BYTES))
REFERENCE = Reference("main", None, 0, 5)
MOVED = replace(REFERENCE, pointer=7, version=1)
# How a session is told to wait for a lock no longer than the tests do.
HASTE = {
    "postgresql": {"options": "-c lock_timeout=100ms"},
    "mariadb": {"init_command": "SET SESSION innodb_lock_wait_timeout=1"},
}
# How long it may keep a lock and say nothing.
SHORT_LEASH = {
    "postgresql": {"options": "-c idle_in_transaction_session_timeout=500ms"},
    "mariadb": {"init_command": "SET SESSION idle_transaction_timeout=1"},
}
USUAL_LEASH = {
    "postgresql": ("SHOW idle_in_transaction_session_timeout", f"{IDLE_SECONDS}s"),
    "mariadb": ("SELECT @@idle_transaction_timeout", IDLE_SECONDS),
}
SESSIONS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE db = database()"
    " AND info LIKE 'UPDATE%'",
}
KILL = {"postgresql": "SELECT pg_terminate_backend(%s)", "mariadb": "KILL %s"}


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_databases")
    return server


@pytest.fixture
def url(server: DatabaseServer) -> str:
    return server.new_database()


@pytest.fixture
def open_store() -> Iterator[Callable[..., SqlBackend]]:
    opened = []

    def open_it(url: str, **changes: Any) -> SqlBackend:
        changed = make_url(url).set(**changes).render_as_string(hide_password=False)
        opened.append(SqlBackend(changed))
        return opened[-1]

    yield open_it
    for backend in opened:
        backend.close()


@pytest.fixture
def store(url: str, open_store: Callable[..., SqlBackend]) -> SqlBackend:
    backend = open_store(url)
    backend.init_schema()
    return backend


@contextmanager
def _raw(url: str) -> Iterator[Any]:
    """Another client of the same database."""
    with connect(url) as connection:
        yield connection.cursor()


@contextmanager
def _locked_reference(url: str, store: SqlBackend) -> Iterator[None]:
    store.insert_reference("acme", REFERENCE)
    with _raw(url) as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM lakesweep_references FOR UPDATE")
        yield
        cursor.execute("ROLLBACK")


def _ask(cursor: Any, statement: str) -> Any:
    cursor.execute(statement)
    return cursor.fetchall()


def test_a_wrong_password_is_told_without_it(
    url: str, open_store: Callable[..., SqlBackend]
) -> None:
    backend = open_store(url, password="wr0ng")
    with pytest.raises(StoreError) as caught:
        backend.check_schema()
    assert caught.value.hint == "check user and password in the URL of the store"
    assert "wr0ng" not in caught.value.message
    assert PASSWORD not in caught.value.message


def test_an_unknown_database_is_told(url: str, open_store: Callable[..., SqlBackend]) -> None:
    backend = open_store(url, database="nowhere")
    with pytest.raises(StoreError, match="nowhere") as caught:
        backend.init_schema()
    assert not isinstance(caught.value, UnreachableError)
    assert "check the URL of the store, or" in caught.value.hint


def test_a_server_that_does_not_run_is_unreachable(
    url: str, open_store: Callable[..., SqlBackend]
) -> None:
    backend = open_store(url, port=free_port())
    for call in (backend.check_schema, lambda: backend.insert_reference("acme", REFERENCE)):
        with pytest.raises(UnreachableError) as caught:
            call()
        assert "check that the database is running" in caught.value.hint


def test_an_option_that_the_driver_does_not_know_is_an_error(
    url: str, open_store: Callable[..., SqlBackend]
) -> None:
    backend = open_store(url, query={"no_such_option": "1"})
    with pytest.raises(UsageError, match="no_such_option"):
        backend.check_schema()


def test_missing_tables_are_told_how_to_get_them(
    url: str, open_store: Callable[..., SqlBackend]
) -> None:
    backend = open_store(url)
    for call in (backend.check_schema, backend.realms, lambda: backend.write("acme", [ROW])):
        with pytest.raises(SchemaError) as caught:
            call()
        assert caught.value.hint == "lakesweep store init creates the tables"


def test_newer_tables_are_refused_and_left_alone(store: SqlBackend, url: str) -> None:
    with _raw(url) as cursor:
        cursor.execute("UPDATE lakesweep_schema SET version = 2")
        for call in (store.check_schema, store.init_schema):
            with pytest.raises(SchemaError, match="version 2, this program understands 1"):
                call()
        assert list(_ask(cursor, "SELECT version FROM lakesweep_schema")) == [(2,)]


def test_many_may_create_the_tables_at_once(
    url: str, open_store: Callable[..., SqlBackend]
) -> None:
    backends = [open_store(url) for _ in range(8)]
    with ThreadPoolExecutor(len(backends)) as pool:
        for done in [pool.submit(backend.init_schema) for backend in backends]:
            done.result()
    backends[0].check_schema()


def test_a_user_who_may_not_write_is_told(
    server: DatabaseServer, store: SqlBackend, url: str, open_store: Callable[..., SqlBackend]
) -> None:
    reader = f"reader_{make_url(url).database}"
    with _raw(url) as cursor:
        if server.scheme == "postgresql":
            cursor.execute(f"CREATE USER {reader} PASSWORD 'x'")
            cursor.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}")
        else:
            cursor.execute(f"CREATE USER {reader} IDENTIFIED BY 'x'")
            cursor.execute(f"GRANT SELECT ON {make_url(url).database}.* TO {reader}")
    backend = open_store(url, username=reader, password="x")
    backend.check_schema()
    with pytest.raises(StoreError) as caught:
        backend.insert_reference("acme", REFERENCE)
    assert "grant the user of the store all rights" in caught.value.hint
    assert list(backend.realms()) == []


def test_a_postgresql_that_may_only_be_read_is_told(
    postgresql_databases: DatabaseServer, open_store: Callable[..., SqlBackend]
) -> None:
    url = postgresql_databases.new_database()
    open_store(url).init_schema()
    backend = open_store(url, query={"options": "-c default_transaction_read_only=on"})
    with pytest.raises(StoreError, match="read-only transaction") as caught:
        backend.insert_reference("acme", REFERENCE)
    assert "primary server" in caught.value.hint
    assert list(backend.realms()) == []


def test_a_lock_that_is_held_for_long_was_not_waited_for(
    server: DatabaseServer, store: SqlBackend, url: str, open_store: Callable[..., SqlBackend]
) -> None:
    hasty = open_store(url, query=HASTE[server.scheme])
    with _locked_reference(url, store):
        with pytest.raises(UnreachableError) as caught:
            hasty.update_reference("acme", MOVED, REFERENCE)
        assert "the database was busy" in caught.value.hint
    assert hasty.update_reference("acme", MOVED, REFERENCE)


def _kill(cursor: Any, server: DatabaseServer, session: int) -> None:
    try:
        cursor.execute(KILL[server.scheme], (session,))
    except pymysql.err.OperationalError:
        return  # it has gone meanwhile


def _kill_waiting(server: DatabaseServer, url: str, change: Future[bool]) -> None:
    with _raw(url) as cursor:
        while not change.done():
            for (session,) in _ask(cursor, SESSIONS[server.scheme]):
                _kill(cursor, server, session)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.update_reference("acme", MOVED, REFERENCE),
        lambda store: store.commit("acme", [ROW], MOVED, REFERENCE),
        lambda store: store.commit("acme", [ROW, LARGE], MOVED, REFERENCE),
    ],
    ids=["swap", "commit", "large commit"],
)
def test_a_write_whose_connection_is_lost_may_have_happened(
    server: DatabaseServer, store: SqlBackend, url: str, write: Callable[[SqlBackend], bool]
) -> None:
    with _locked_reference(url, store), ThreadPoolExecutor(1) as pool:
        change = pool.submit(write, store)
        _kill_waiting(server, url, change)
        assert isinstance(change.exception(), UnknownOutcomeError)
    assert list(store.scan_rows("acme")) == []
    assert write(store)


def test_a_writer_that_is_stopped_in_a_large_commit_holds_up_nobody_for_long(
    server: DatabaseServer,
    store: SqlBackend,
    url: str,
    open_store: Callable[..., SqlBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.insert_reference("acme", REFERENCE)
    stopped, goes_on = Event(), Event()
    row_batches = Dialect.row_batches

    def stop_first(*arguments: Any) -> Any:
        stopped.set()
        goes_on.wait()
        return row_batches(*arguments)

    monkeypatch.setattr(Dialect, "row_batches", stop_first)
    rows = [LARGE._replace(id=number) for number in range(2, 6)]
    slow = open_store(url, query=SHORT_LEASH[server.scheme])
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(slow.commit, "acme", rows, MOVED, REFERENCE)
        try:
            assert stopped.wait(60)
            assert store.update_reference("acme", replace(MOVED, pointer=8), REFERENCE)
        finally:
            goes_on.set()
        assert isinstance(commit.exception(), UnknownOutcomeError | UnreachableError)
    assert list(store.scan_rows("acme")) == []
    assert not slow.commit("acme", rows, MOVED, REFERENCE)


def test_no_session_may_keep_a_lock_and_say_nothing(
    server: DatabaseServer, store: SqlBackend
) -> None:
    statement, seconds = USUAL_LEASH[server.scheme]
    found = store._database.read(lambda cursor: list(_ask(cursor, statement)))
    assert found == [(seconds,)]


IMPATIENT = {"read_timeout": "1", "connect_timeout": "2"}


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda store: store.update_reference("acme", MOVED, REFERENCE), UnknownOutcomeError),
        (lambda store: store.commit("acme", [ROW], MOVED, REFERENCE), UnknownOutcomeError),
        (lambda store: store.commit("acme", [ROW, LARGE], MOVED, REFERENCE), UnknownOutcomeError),
        (lambda store: store.fetch_references("acme", ["main"]), UnreachableError),
    ],
    ids=["swap", "commit", "large commit", "read"],
)
def test_a_server_that_stops_answering_is_not_waited_for_for_ever(
    store: SqlBackend,
    url: str,
    open_store: Callable[..., SqlBackend],
    call: Callable[[SqlBackend], object],
    kind: type[StoreError],
) -> None:
    store.insert_reference("acme", REFERENCE)
    impatient = open_store(url, query=IMPATIENT)
    impatient.check_schema()
    with paused(url), pytest.raises(kind):
        call(impatient)
    assert impatient.fetch_references("acme", ["main"])


def test_to_delete_a_realm_may_take_longer_than_other_answers(
    store: SqlBackend, url: str, open_store: Callable[..., SqlBackend]
) -> None:
    store.insert_reference("acme", REFERENCE)
    impatient = open_store(url, query=IMPATIENT)
    with ThreadPoolExecutor(1) as pool:
        with _locked_reference(url, store):
            deletion = pool.submit(impatient.delete_realm, "acme")
            with pytest.raises(UnknownOutcomeError):
                impatient.update_reference("acme", MOVED, REFERENCE)
            assert not deletion.done()
        deletion.result()
    assert list(store.realms()) == []


@pytest.mark.parametrize("rows", [[], [LARGE]], ids=["small", "large"])
def test_a_commit_whose_rows_are_refused_moves_no_reference(
    store: SqlBackend, rows: list[ObjectRow]
) -> None:
    store.insert_reference("acme", REFERENCE)
    for _ in range(2):
        with pytest.raises(StoreError, match="too long"):
            store.commit("acme", [ROW, *rows, ROW._replace(id=3, type="t" * 65)], MOVED, REFERENCE)
    assert store.fetch_references("acme", ["main"]) == {"main": REFERENCE}
    assert list(store.scan_rows("acme")) == []
    assert store.commit("acme", [ROW, *rows], MOVED, REFERENCE)


def _kill_all(server: DatabaseServer, url: str) -> None:
    """End every session of the store."""
    statement = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
        if server.scheme == "postgresql"
        else "SELECT id FROM information_schema.processlist WHERE db = database()"
        " AND id <> connection_id()"
    )
    with _raw(url) as cursor:
        while sessions := _ask(cursor, statement):
            for (session,) in sessions:
                _kill(cursor, server, session)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.update_reference("acme", MOVED, REFERENCE),
        lambda store: store.write("acme", [ROW]) is None,
        lambda store: store.fetch_references("acme", ["main"]),
        lambda store: list(store.scan_references("acme")),
    ],
)
def test_connections_that_broke_while_nobody_used_them_are_replaced(
    server: DatabaseServer, store: SqlBackend, url: str, call: Callable[[SqlBackend], object]
) -> None:
    store.insert_reference("acme", REFERENCE)
    store.write("acme", [ROW])
    with ThreadPoolExecutor(MAX_CONNECTIONS) as pool:
        list(pool.map(lambda _: store.realms(), range(50)))
    _kill_all(server, url)
    assert call(store)


def test_more_threads_than_connections_take_turns(store: SqlBackend) -> None:
    with ThreadPoolExecutor(3 * MAX_CONNECTIONS) as pool:
        rows = [ROW._replace(id=number) for number in range(300)]
        assert all(pool.map(lambda row: store.insert_row("acme", row), rows))
    assert len(list(store.scan_rows("acme"))) == len(rows)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_use_the_connections_of_its_parent(store: SqlBackend) -> None:
    store.insert_reference("acme", REFERENCE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if store.update_reference("acme", MOVED, REFERENCE) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.fetch_references("acme", ["main"]) == {"main": MOVED}


def test_swaps_are_durable_even_where_the_server_would_not_wait(
    postgresql_databases: DatabaseServer, open_store: Callable[..., SqlBackend]
) -> None:
    url = postgresql_databases.new_database()
    with _raw(url) as cursor:
        cursor.execute(f"ALTER DATABASE {make_url(url).database} SET synchronous_commit = off")
    database = open_store(url)._database
    assert database.read(lambda cursor: _ask(cursor, "SHOW synchronous_commit")) == [("on",)]


@contextmanager
def _global_setting(url: str, name: str, value: object) -> Iterator[None]:
    with _raw(url) as cursor:
        ((before,),) = _ask(cursor, f"SELECT @@global.{name}")
        cursor.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


@pytest.fixture
def mariadb_url(mariadb_databases: DatabaseServer) -> str:
    return mariadb_databases.new_database()


def test_mariadb_never_cuts_what_is_too_long(
    mariadb_url: str, open_store: Callable[..., SqlBackend]
) -> None:
    with _global_setting(mariadb_url, "sql_mode", ""):
        backend = open_store(mariadb_url)
        backend.init_schema()
        too_long = "r" * (MAX_REALM_BYTES + 1)
        for call in (
            lambda: backend.insert_row(too_long, ROW),
            lambda: backend.write(too_long, [ROW]),
            lambda: backend.insert_references(too_long, [REFERENCE]),
        ):
            with pytest.raises(StoreError, match="Data too long"):
                call()
        assert list(backend.realms()) == []


def test_mariadb_carries_the_largest_rows_in_its_smallest_packets(
    mariadb_url: str, open_store: Callable[..., SqlBackend]
) -> None:
    with _global_setting(mariadb_url, "max_allowed_packet", 2**19):
        backend = open_store(mariadb_url)
        backend.init_schema()
        contract.takes_more_bytes_than_a_request_can_carry(backend)


def test_mariadb_is_asked_for_long_names_in_its_smallest_packets(
    mariadb_url: str, open_store: Callable[..., SqlBackend]
) -> None:
    with _global_setting(mariadb_url, "max_allowed_packet", 2**19):
        backend = open_store(mariadb_url)
        backend.init_schema()
        # What must be escaped takes twice its bytes.
        names = [f"{number:04}".ljust(MAX_NAME_BYTES, "'") for number in range(1_000)]
        backend.insert_references("acme", [replace(REFERENCE, name=name) for name in names])
        assert backend.fetch_references("acme", names).keys() == set(names)


def test_mariadb_with_packets_too_small_for_a_row_is_refused(
    mariadb_url: str, open_store: Callable[..., SqlBackend]
) -> None:
    open_store(mariadb_url).init_schema()
    with _global_setting(mariadb_url, "max_allowed_packet", 2**18):
        backend = open_store(mariadb_url)
        for call in (backend.init_schema, backend.check_schema):
            with pytest.raises(StoreError, match="setting of the server") as caught:
                call()
            assert caught.value.hint == "set max_allowed_packet of the server to at least 500000"


def test_a_mariadb_that_may_only_be_read_is_told(
    mariadb_url: str, open_store: Callable[..., SqlBackend]
) -> None:
    open_store(mariadb_url).init_schema()
    with _raw(mariadb_url) as cursor:
        cursor.execute("CREATE USER writer IDENTIFIED BY 'x'")
        cursor.execute(f"GRANT ALL ON {make_url(mariadb_url).database}.* TO writer")
    with _global_setting(mariadb_url, "read_only", 1):
        backend = open_store(mariadb_url, username="writer", password="x")
        with pytest.raises(StoreError, match="read-only") as caught:
            backend.insert_reference("acme", REFERENCE)
        assert "primary server" in caught.value.hint
    assert list(backend.realms()) == []


def test_keys_are_looked_up_in_a_table_that_the_planner_does_not_know(
    postgresql_databases: DatabaseServer, open_store: Callable[..., SqlBackend]
) -> None:
    backend = open_store(postgresql_databases.new_database())
    backend.init_schema()
    backend.write("acme", [ROW._replace(id=number) for number in range(5_000)])
    keys = (list(range(1_000)), [0] * 1_000, b"acme")

    def explain(text: str, values: Sequence[object], cursor: Any) -> str:
        cursor.execute(f"EXPLAIN {text}", values)
        return str(cursor.fetchall())

    fetch = backend._database.read(partial(explain, FETCH_ROWS, keys))
    assert "AND (id = wanted.i) AND (part = wanted.p)" in fetch
    page = FETCH_PAGE.format(rows=100)
    # A scan that sorts would read and sort all that is left for each of its pages.
    assert "Sort" not in backend._database.read(partial(explain, page, (b"acme", 0, 10_000)))
