"""Threads for requests: the store is synchronous, and no service may start as many as it is asked.

All parts of a service share them, so that none takes the database connections of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from lakesweep.server.http.problems import HttpError

#: As many as a pool of database connections serves well.
_THREADS = 12
#: Requests that wait for a thread; more are turned away.
_MOST_WAITING = 200
_CALL_SECONDS = 60.0

Result = TypeVar("Result")


class TookTooLongError(HttpError):
    """The work goes on, and nobody waits for it any more."""


class RequestThreads:
    """A bounded number of threads, and a bounded time for each request."""

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do something synchronous. HttpError if too many wait, or if it takes too long."""
        if self._limit.statistics().tasks_waiting >= _MOST_WAITING:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the service is busy",
                headers={"retry-after": "1"},
            )
        try:
            with anyio.fail_after(_CALL_SECONDS):
                return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limit)
        except TimeoutError:
            raise TookTooLongError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the answer took too long",
                headers={"retry-after": "5"},
            ) from None

    @cached_property
    def _limit(self) -> CapacityLimiter:
        return CapacityLimiter(_THREADS)
