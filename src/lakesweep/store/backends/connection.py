"""Connections to a relational database, and what their errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from lakesweep.errors import StoreError, UnknownOutcomeError, UnreachableError, UsageError
from lakesweep.store.backends.dialects import DIALECTS, Dialect


class Database:
    """An engine in which each statement stands alone, unless a transaction is asked for."""

    def __init__(self, url: str) -> None:
        self.url, self.dialect = _parse(url)
        self._engine = self._connect_with(self.dialect.on_connect)
        self._relaxed = self._connect_with(self.dialect.on_relaxed)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for statements that change nothing."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            kind = self._kind(error)
            kind = UnreachableError if kind is UnknownOutcomeError else kind
            raise kind(self._message(error)) from error
        except PoolTimeoutError as error:
            raise UnreachableError(f"{self.url!r}: no connection is free") from error

    @contextmanager
    def writing(self, *, relaxed: bool = False) -> Iterator[Connection]:
        """A connection for one statement that writes."""
        engine = self._relaxed if relaxed else self._engine
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._kind(error)(self._message(error)) from error
        except PoolTimeoutError as error:
            raise UnreachableError(f"{self.url!r}: no connection is free") from error

    @contextmanager
    def transaction(self, *, relaxed: bool = False) -> Iterator[Connection]:
        """A connection for several statements that take effect together."""
        with self.writing(relaxed=relaxed) as connection:
            connection.exec_driver_sql(self.dialect.begin)
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                # Whatever is left of the transaction goes with its connection.
                connection.invalidate()
                raise

    def close(self) -> None:
        self._engine.dispose()
        self._relaxed.dispose()

    def _connect_with(self, statements: Sequence[str]) -> Engine:
        engine = sqlalchemy.create_engine(
            self.url, isolation_level="AUTOCOMMIT", connect_args=dict(self.dialect.connect_args)
        )
        event.listen(engine, "connect", partial(_prepare, statements))
        return engine

    def _kind(self, error: DBAPIError) -> type[StoreError]:
        return self.dialect.failure(error.orig or error)

    def _message(self, error: DBAPIError) -> str:
        return f"{self.url!r}: {error.orig}"


def _prepare(statements: Sequence[str], connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()


def _parse(url: str) -> tuple[sqlalchemy.URL, Dialect]:
    try:
        parsed = sqlalchemy.make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise UsageError(f"not the URL of a database: {error}", hint=_EXAMPLE) from error
    dialect = DIALECTS.get(parsed.get_backend_name())
    if dialect is None:
        raise UsageError(f"{parsed!r}: no store can be kept in this database", hint=_EXAMPLE)
    return parsed, dialect


_EXAMPLE = "sqlite:///folder/store.db keeps a store in a file"
