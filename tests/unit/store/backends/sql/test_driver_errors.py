"""What the errors of drivers mean: whether a write may have happened, and whether to try again."""

from __future__ import annotations

import psycopg
import pymysql
import pytest
from sqlalchemy import make_url

from lakesweep.errors import SchemaError, StoreError, UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.sql.mysql import MySql
from lakesweep.store.backends.sql.postgresql import PostgreSql


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("40001", UnreachableError),  # could not serialize
        ("40P01", UnreachableError),  # deadlock
        ("55P03", UnreachableError),  # a lock was not to be had
        ("57014", UnreachableError),  # cancelled
        ("53300", UnreachableError),  # too many connections
        ("42P01", SchemaError),
        ("25006", StoreError),  # read-only
        ("53100", StoreError),  # disk full
        ("42501", StoreError),  # no right
        ("22001", StoreError),  # too long
        ("23502", StoreError),  # null
        ("08006", UnknownOutcomeError),  # connection failure
        ("08007", UnknownOutcomeError),
        ("40003", UnknownOutcomeError),
        ("57P01", UnknownOutcomeError),  # shut down, maybe while it waited for a replica
        ("57P02", UnknownOutcomeError),
        ("58030", UnknownOutcomeError),  # input or output
        ("XX000", UnknownOutcomeError),
    ],
)
def test_a_state_of_postgresql(state: str, kind: type[StoreError]) -> None:
    assert PostgreSql().failed(psycopg.errors.lookup(state)())[0] is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.OperationalError("server closed the connection"), UnknownOutcomeError),
        (psycopg.InterfaceError("the connection is lost"), UnknownOutcomeError),
        (psycopg.ProgrammingError("cannot adapt type"), StoreError),
        (psycopg.DataError("a text cannot contain NUL"), StoreError),
    ],
)
def test_an_error_of_psycopg_itself(error: Exception, kind: type[StoreError]) -> None:
    assert PostgreSql().failed(error)[0] is kind


@pytest.mark.parametrize(
    ("words", "kind", "hint"),
    [
        ('password authentication failed for user "u"', StoreError, "user and password"),
        ('role "u" does not exist', StoreError, "user and password"),
        (
            'no pg_hba.conf entry for host "h", user "u", database "d"',
            StoreError,
            "user and password",
        ),
        ('database "d" does not exist', StoreError, "createdb"),
        ('permission denied for database "d"', StoreError, "rights"),
        ("sorry, too many clients already", UnreachableError, "max_connections"),
        ('too many connections for role "u"', UnreachableError, "max_connections"),
        ('too many connections for database "d"', UnreachableError, "max_connections"),
        ("remaining connection slots are reserved for roles", UnreachableError, "max_connections"),
        ('database "d" is not currently accepting connections', UnreachableError, None),
        ("the database system is in recovery mode", UnreachableError, None),
        ("the database system is not yet accepting connections", UnreachableError, None),
        ("the database system is starting up", UnreachableError, None),
        ("the database system is shutting down", UnreachableError, None),
    ],
)
def test_why_postgresql_lets_nobody_in(
    words: str, kind: type[StoreError], hint: str | None
) -> None:
    error = psycopg.OperationalError(f"connection to server failed: FATAL:  {words}")
    failure = PostgreSql().refused(error, make_url("postgresql:///lake"))
    assert failure.kind is kind
    assert (hint or "") in (failure.hint or "")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.err.OperationalError(1205, "Lock wait timeout exceeded"), UnreachableError),
        (pymysql.err.OperationalError(1213, "Deadlock found"), UnreachableError),
        (pymysql.err.ProgrammingError(1146, "Table doesn't exist"), SchemaError),
        (pymysql.err.OperationalError(1114, "The table is full"), StoreError),
        (pymysql.err.OperationalError(1290, "running with --read-only"), StoreError),
        (pymysql.err.OperationalError(1665, "BINLOG_FORMAT = STATEMENT"), StoreError),
        (pymysql.err.OperationalError(1153, "packet bigger than allowed"), StoreError),
        (pymysql.err.DataError(1406, "Data too long"), StoreError),
        (pymysql.err.IntegrityError(1048, "Column cannot be null"), StoreError),
        (pymysql.err.OperationalError(2013, "Lost connection during query"), UnknownOutcomeError),
        (pymysql.err.OperationalError(2006, "server has gone away"), UnknownOutcomeError),
        (pymysql.err.OperationalError(1053, "Server shutdown in progress"), UnknownOutcomeError),
        (pymysql.err.OperationalError(1180, "Got error during COMMIT"), UnknownOutcomeError),
        (pymysql.err.InterfaceError(0, ""), UnknownOutcomeError),
        (pymysql.err.InternalError("Packet sequence number wrong"), UnknownOutcomeError),
    ],
)
def test_an_error_of_mysql(error: Exception, kind: type[StoreError]) -> None:
    assert MySql().failed(error)[0] is kind


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (1045, StoreError, "user and password"),
        (1049, StoreError, "CREATE DATABASE"),
        (1044, StoreError, "rights"),
        (1040, UnreachableError, "max_connections"),
        (2003, UnreachableError, None),
    ],
)
def test_why_mysql_lets_nobody_in(code: int, kind: type[StoreError], hint: str | None) -> None:
    error = pymysql.err.OperationalError(code, "no")
    failure = MySql().refused(error, make_url("mysql:///lake"))
    assert failure.kind is kind
    assert (hint or "") in (failure.hint or "")
