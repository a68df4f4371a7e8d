"""Connections to a database that are open and that nobody uses at the moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from lakesweep.errors import UnreachableError

#: So many threads of a process use the database at once, and the others wait.
MAX_CONNECTIONS = 10
PATIENCE_SECONDS = 60.0


class Pool:
    """Hands out connections, the last used first, and makes new ones where none is left.

    `is_alive` is asked before a connection is handed out again, with the seconds for which nobody
    used it.
    """

    def __init__(self, connect: Callable[[], Any], is_alive: Callable[[Any, float], bool]) -> None:
        self._connect = connect
        self._is_alive = is_alive
        self._seats: SimpleQueue[None] = SimpleQueue()  # quicker than a semaphore
        for _ in range(MAX_CONNECTIONS):
            self._seats.put(None)
        self._idle: list[tuple[Any, float]] = []
        self._process = os.getpid()

    def take(self) -> Any:
        """A connection that works as far as can be told."""
        self._sit_down()
        try:
            return self._reuse() or self._connect()
        except BaseException:
            self._seats.put(None)
            raise

    def give_back(self, connection: Any) -> None:
        """Let others have the connection. No transaction may be open in it."""
        self._idle.append((connection, time.monotonic()))
        self._seats.put(None)

    def drop(self, connection: Any) -> None:
        """Close the connection, with whatever is left of a transaction in it."""
        try:
            _close(connection)
        finally:
            self._seats.put(None)

    def close(self) -> None:
        """Close all that nobody uses. Those of another process are not this one's to close."""
        while self._idle and self._process == os.getpid():
            _close(self._idle.pop()[0])

    def _sit_down(self) -> None:
        try:
            self._seats.get(timeout=PATIENCE_SECONDS)
        except Empty as error:
            message = f"all {MAX_CONNECTIONS} connections were busy all the while"
            raise UnreachableError(message) from error

    def _reuse(self) -> Any | None:
        if self._process != os.getpid():
            self._forget()
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                break  # another thread was quicker
            if self._is_alive(connection, time.monotonic() - since):
                return connection
            _close(connection)
        return None

    def _forget(self) -> None:
        """What a fork left here belongs to the process that was forked."""
        self._process, self._idle = os.getpid(), []


def _close(connection: Any) -> None:
    try:
        connection.close()
    except Exception:
        return  # it is broken already, and the server notices by itself
