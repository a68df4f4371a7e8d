"""Adapt the number of concurrent requests to a store that throttles."""

from __future__ import annotations

import threading

from lakesweep.clock import Clock


class AdaptiveConcurrency:
    """The number of requests under way, shared by all threads that use one store.

    There is no limit until the store asks for fewer requests. Then the limit is half of what was
    under way, and everybody waits for the pause that was asked for. Each good answer raises the
    limit a little: by one a round of requests. Answers to requests that began before a cut do not
    cut again, since they say nothing about the new limit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Condition()
        self._under_way = 0
        self._limit: float | None = None
        self._peak = 0
        self._resume_at = 0.0
        self._begun = 0
        self._cut_at = 0

    def __reduce__(self) -> tuple[type[AdaptiveConcurrency], tuple[Clock]]:
        return type(self), (self._clock,)

    @property
    def limit(self) -> float | None:
        """How many requests may be under way; None for no limit."""
        return self._limit

    def begin(self) -> int:
        """Wait for a place; gives the number of the request."""
        with self._turn:
            self._turn.wait_for(self._has_room)
            self._under_way += 1
            self._peak = max(self._peak, self._under_way)
            self._begun += 1
            number, pause = self._begun, self._resume_at - self._clock.monotonic()
        self._clock.sleep(pause)
        return number

    def end(self) -> None:
        """Give the place back."""
        with self._turn:
            self._under_way -= 1
            self._turn.notify_all()

    def speed_up(self) -> None:
        """A request was answered well."""
        with self._turn:
            if self._limit is None:
                return
            self._limit += 1 / self._limit
            if self._limit > 2 * self._peak:
                self._limit = None
            self._turn.notify_all()

    def slow_down(self, number: int, pause: float = 0.0) -> None:
        """The store asked request `number` for fewer requests, and for a pause."""
        with self._turn:
            self._resume_at = max(self._resume_at, self._clock.monotonic() + pause)
            if number > self._cut_at:
                self._cut_at = self._begun
                self._limit = max(1.0, min(self._limit or self._under_way, self._under_way) / 2)

    def _has_room(self) -> bool:
        return self._limit is None or self._under_way < max(1, int(self._limit))
