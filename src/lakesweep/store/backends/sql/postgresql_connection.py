"""psycopg connections with a timeout for each response."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

Answer = TypeVar("Answer")

_WRONG_OPTION = re.compile(
    r"invalid \"?\w+\"? value: .*|invalid port number: .*|invalid integer value .*"
    r"|definition of service .* not found|could not parse network address .*"
)
Steps = Generator[Any, Any, Answer]


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up on a server that stays silent although its machine still acknowledges packets.

    Neither libpq nor the settings of the server have such a limit.
    """

    answer_seconds: float = 0.0

    def wait(self, gen: Steps[Answer], *arguments: Any, **options: Any) -> Answer:
        return super().wait(_within(self.answer_seconds, gen), *arguments, **options)


def connect(seconds: float, *arguments: Any, **options: Any) -> BoundedConnection:
    """Connect like psycopg, with a limit of seconds for each response.

    ValueError if an option is wrong.
    """
    try:
        connection = BoundedConnection.connect(*arguments, **options)
    except psycopg.ProgrammingError as error:
        raise ValueError(str(error).strip()) from error  # nothing was sent yet
    except psycopg.OperationalError as error:
        problem = _WRONG_OPTION.search(str(error))
        if problem is None:
            raise
        raise ValueError(problem[0]) from error  # libpq gave up before it asked the server
    connection.answer_seconds = seconds
    return connection


def _within(seconds: float, steps: Steps[Answer]) -> Steps[Answer]:
    """The same steps, ending with an error if nothing is ready in time."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"no response for {seconds:g} seconds")
            wanted = steps.send(ready)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
