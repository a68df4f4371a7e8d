"""psycopg connections with a timeout for each answer."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

Answer = TypeVar("Answer")
Steps = Generator[Any, Any, Answer]


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up on a server that is silent although its machine still confirms what it is sent.

    Neither libpq nor the settings of the server know of such a limit.
    """

    answer_seconds: float = 0.0

    def wait(self, gen: Steps[Answer], *arguments: Any, **options: Any) -> Answer:
        return super().wait(_within(self.answer_seconds, gen), *arguments, **options)


def connect(seconds: float, *arguments: Any, **options: Any) -> BoundedConnection:
    """Connect as psycopg does; each answer may then take so many seconds.

    ValueError if an option is wrong.
    """
    try:
        connection = BoundedConnection.connect(*arguments, **options)
    except psycopg.ProgrammingError as error:
        raise ValueError(str(error).strip()) from error  # nobody was asked yet
    connection.answer_seconds = seconds
    return connection


def _within(seconds: float, steps: Steps[Answer]) -> Steps[Answer]:
    """The same steps, but for an end when nothing was ready in time."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"the server gave no answer for {seconds:g} seconds")
            wanted = steps.send(ready)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
