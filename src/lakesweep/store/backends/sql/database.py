"""Run statements on a relational database: connection pools, transactions and driver errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import URL
from sqlalchemy.engine import Dialect as Compiler
from sqlalchemy.exc import ArgumentError

from lakesweep.errors import (
    ConfigError,
    StoreError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from lakesweep.store.backends.sql.dialect import Dialect, DriverFailure, fetch_all
from lakesweep.store.backends.sql.dialects import parse_url, without_secrets
from lakesweep.store.backends.sql.statements import Statement, Statements

Answer = TypeVar("Answer")

#: A connection that has been idle for this long is tested before it is used again.
STALE_SECONDS = 30.0
#: How often to try to prepare a database that others keep busy.
INIT_TRIES = 1_000
INIT_PAUSE_SECONDS = 0.02


class SqlDatabase:
    """A database in which each statement stands alone, unless a transaction is started.

    SQLAlchemy compiles the statements; they go straight to the driver. A connection with an error
    is closed, so that no transaction is left open in it.
    """

    def __init__(self, url: str) -> None:
        self._url, self.dialect = parse_url(url)
        self._name = without_secrets(self._url)
        self._compiler, self._driver = _load(self._url, self.dialect)
        self.statements = Statements(self.dialect, self._compiler)
        self._arguments = self._connect_arguments()
        self._durable = ConnectionPool(
            partial(self._connect, self.dialect.on_connect), self._is_alive
        )
        self._relaxed = ConnectionPool(
            partial(self._connect, self.dialect.on_relaxed), self._is_alive
        )
        options = self.dialect.long_running_options
        self._long_running = ConnectionPool(
            partial(self._connect, self.dialect.on_connect, **options), self._is_alive
        )

    def __str__(self) -> str:
        return self._name

    def read(self, action: Callable[[Any], Answer]) -> Answer:
        """The result of the action on a cursor. Retried once if the connection broke."""
        try:
            return self._run(self._durable, action)
        except UnknownOutcomeError:
            pass
        try:
            return self._run(self._durable, action)
        except UnknownOutcomeError as error:
            raise UnreachableError(error.message) from error

    def query(self, statement: Statement, **values: object) -> Sequence[tuple[Any, ...]]:
        """All rows of one read-only statement."""
        return self.read(partial(fetch_all, statement.text, statement.values(**values)))

    def change(self, statement: Statement, **values: object) -> bool:
        """Whether a statement that changes at most one row changed it."""
        arguments = (statement.text, statement.values(**values))
        return self._run(self._durable, partial(self._change, *arguments)) == 1

    def change_many(self, action: Callable[[Any], Answer], *, relaxed: bool = False) -> Answer:
        """Run an action that writes many rows; if relaxed, they need not be durable yet."""
        pool = self._relaxed if relaxed else self._durable
        return self._run(pool, self._grouped(action) if self.dialect.groups_writes else action)

    def in_transaction(self, action: Callable[[Any], object]) -> None:
        """Run an action in one transaction."""
        self._run(self._long_running, self._grouped(action))

    def commit(self, action: Callable[[Any], bool]) -> bool:
        """Run an action that begins and ends its own transaction."""
        return self._run(self._durable, action)

    def prepare(self) -> None:
        """Create what must exist before tables can be created."""
        self.dialect.prepare(self._url)
        for statement in self.dialect.on_init:
            self._run_patiently(statement)

    def check_server(self) -> None:
        """StoreError if a setting of the server does not allow a store."""
        if wrong := self.read(self.dialect.setting_problem):
            raise StoreError(f"{self}: a setting of the server does not allow a store", hint=wrong)

    def close(self) -> None:
        self._durable.close()
        self._relaxed.close()
        self._long_running.close()

    def _run_patiently(self, statement: str) -> None:
        """Run a statement that fails at once, rather than wait, while others are busy."""
        for left in reversed(range(INIT_TRIES)):
            try:
                self._run(self._durable, lambda cursor: cursor.execute(statement))
            except UnreachableError:
                if not left:
                    raise
                time.sleep(INIT_PAUSE_SECONDS)
            else:
                return

    def _change(self, text: str, values: Sequence[object], cursor: Any) -> int:
        try:
            cursor.execute(text, values)
        except self._driver.IntegrityError as error:
            if self.dialect.is_duplicate(error):
                return 0
            raise
        return int(cursor.rowcount)

    def _grouped(self, action: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        def run(cursor: Any) -> Answer:
            cursor.execute(self.dialect.begin)
            answer = action(cursor)
            cursor.execute("COMMIT")
            return answer

        return run

    def _run(self, pool: ConnectionPool, action: Callable[[Any], Answer]) -> Answer:
        connection = pool.take()
        try:
            answer = action(connection.cursor(**self.dialect.cursor_options))
        except self._driver.Error as error:
            # Close it: the server then rolls back whatever the connection had started.
            pool.drop(connection)
            raise self._translated(error, self.dialect.failed) from error
        except BaseException:
            pool.drop(connection)
            raise
        pool.release(connection)
        return answer

    def _connect(self, statements: Sequence[str], **changes: Any) -> Any:
        arguments, options = self._arguments
        try:
            connection = self.dialect.connect(self._driver, arguments, {**options, **changes})
        except self._driver.Error as error:
            raise self._translated(error, self._refused) from error
        except Exception as error:
            # Drivers translate all errors of the network. All else comes from their reading
            # of options: of the wrong type, or certificates that are none.
            raise self._wrong_option(error) from error
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
        except self._driver.Error as error:
            connection.close()
            raise self._translated(error, self._refused) from error
        return connection

    def _connect_arguments(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        try:
            arguments, options = self._compiler.create_connect_args(self._url)
            return self.dialect.connect_arguments(self._url, arguments, options)
        except (TypeError, ValueError, ArgumentError) as error:
            raise self._wrong_option(error) from error

    def _is_alive(self, connection: Any, idle_seconds: float) -> bool:
        try:
            if idle_seconds >= STALE_SECONDS or not self.dialect.is_silent(connection):
                connection.cursor().execute("SELECT 1")
        except self._driver.Error:
            return False
        return True

    def _refused(self, error: Exception) -> DriverFailure:
        return self.dialect.refused(error, self._url)

    def _translated(
        self, error: Exception, meaning: Callable[[Exception], DriverFailure]
    ) -> StoreError:
        kind, hint = meaning(error)
        return kind(f"{self}: {self.dialect.message_of(error)}", hint=hint)

    def _wrong_option(self, error: Exception) -> UsageError:
        return UsageError(
            f"{self}: the URL has an invalid option: {error}",
            hint="everything after the ? of the URL is passed to the driver",
        )


def _load(url: URL, dialect: Dialect) -> tuple[Compiler, Any]:
    """The statement compiler and the driver of a dialect."""
    kind: Any = url.get_dialect()
    try:
        driver: Any = kind.import_dbapi()
    except ImportError as error:
        raise ConfigError(
            f"a store in {dialect.name} needs the package {dialect.driver}",
            hint=f"pip install 'lakesweep[{dialect.extra}]'",
        ) from error
    style = "qmark" if dialect.placeholder == "?" else "format"
    return kind(paramstyle=style, dbapi=driver), driver


#: At most this many threads of a process use the database at once; the others wait.
MAX_CONNECTIONS = 10
PATIENCE_SECONDS = 60.0


class ConnectionPool:
    """Hands out connections, the last used first, and opens new ones if none is idle.

    `is_alive` is called before a connection is reused, with the seconds it was idle.
    """

    def __init__(self, connect: Callable[[], Any], is_alive: Callable[[Any, float], bool]) -> None:
        self._connect = connect
        self._is_alive = is_alive
        self._slots: SimpleQueue[None] = SimpleQueue()  # faster than a semaphore
        for _ in range(MAX_CONNECTIONS):
            self._slots.put(None)
        self._idle: list[tuple[Any, float]] = []
        self._process = os.getpid()

    def take(self) -> Any:
        """A connection that works, as far as can be known."""
        self._wait_for_slot()
        try:
            return self._reuse() or self._connect()
        except BaseException:
            self._slots.put(None)
            raise

    def release(self, connection: Any) -> None:
        """Return a connection to the pool. No transaction may be open in it."""
        self._idle.append((connection, time.monotonic()))
        self._slots.put(None)

    def drop(self, connection: Any) -> None:
        """Close a connection, with any transaction in it."""
        try:
            _close(connection)
        finally:
            self._slots.put(None)

    def close(self) -> None:
        """Close all idle connections. Those of another process must not be closed here."""
        while self._idle and self._process == os.getpid():
            _close(self._idle.pop()[0])

    def _wait_for_slot(self) -> None:
        try:
            self._slots.get(timeout=PATIENCE_SECONDS)
        except Empty as error:
            message = f"all {MAX_CONNECTIONS} connections stayed busy"
            raise UnreachableError(message) from error

    def _reuse(self) -> Any | None:
        if self._process != os.getpid():
            self._forget()
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                break  # another thread was faster
            if self._is_alive(connection, time.monotonic() - since):
                return connection
            _close(connection)
        return None

    def _forget(self) -> None:
        """Drop connections inherited by a fork: they belong to the parent process."""
        self._process, self._idle = os.getpid(), []


def _close(connection: Any) -> None:
    try:
        connection.close()
    except Exception:
        return  # it is already broken, and the server will notice
