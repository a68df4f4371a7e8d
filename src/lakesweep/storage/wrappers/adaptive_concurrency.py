"""Adapt the number of concurrent requests to a store that throttles."""

from __future__ import annotations

import threading

from lakesweep.clock import Clock


class AdaptiveConcurrency:
    """The number of concurrent requests, shared by all threads that use one store.

    There is no limit until the store throttles. Then the limit becomes half of the requests in
    flight, and every thread waits for the requested pause. Each success raises the limit a little:
    by one per round of requests. Responses to requests that started before a cut do not cut again,
    since they say nothing about the new limit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._in_flight = 0
        self._limit: float | None = None
        self._peak = 0
        self._resume_at = 0.0
        self._started = 0
        self._cut_at = 0

    def __reduce__(self) -> tuple[type[AdaptiveConcurrency], tuple[Clock]]:
        return type(self), (self._clock,)

    @property
    def limit(self) -> float | None:
        """How many requests may be in flight; None for no limit."""
        return self._limit

    def begin(self) -> int:
        """Wait for a slot; returns the number of the request."""
        with self._condition:
            self._condition.wait_for(self._has_slot)
            self._in_flight += 1
            self._peak = max(self._peak, self._in_flight)
            self._started += 1
            number, pause = self._started, self._resume_at - self._clock.monotonic()
        self._clock.sleep(pause)
        return number

    def end(self) -> None:
        """Release the slot."""
        with self._condition:
            self._in_flight -= 1
            self._condition.notify_all()

    def speed_up(self) -> None:
        """A request succeeded."""
        with self._condition:
            if self._limit is None:
                return
            self._limit += 1 / self._limit
            # Twice the observed peak is never reached, so the limit has no effect any more.
            if self._limit > 2 * self._peak:
                self._limit = None
            self._condition.notify_all()

    def slow_down(self, number: int, pause: float = 0.0) -> None:
        """The store throttled request `number`, and asked for a pause."""
        with self._condition:
            self._resume_at = max(self._resume_at, self._clock.monotonic() + pause)
            # Only requests started after the last cut may cut again: a burst of throttled responses
            # is one signal.
            if number > self._cut_at:
                self._cut_at = self._started
                self._limit = max(1.0, min(self._limit or self._in_flight, self._in_flight) / 2)

    def _has_slot(self) -> bool:
        return self._limit is None or self._in_flight < max(1, int(self._limit))
