"""Retry calls that a store throttled or could not answer.

The number of concurrent requests adapts to a store that throttles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from lakesweep.clock import Clock
from lakesweep.errors import (
    ExistsError,
    MissingError,
    NoServerError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.moves import finish_move, object_exists
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    Outcome,
)
from lakesweep.storage.wrappers.base import StoreWrapper

Answer = TypeVar("Answer")
_TRANSIENT = (ThrottledError, UnavailableError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to retry one call, and how long to pause.

    A store that never answered at all is tried for `first_answer_seconds` only: a wrong endpoint is
    more likely than a server that restarts at this moment.
    """

    attempts: int = 9
    total_seconds: float = 600.0
    first_answer_seconds: float = 3.0
    first_pause_seconds: float = 0.2
    longest_pause_seconds: float = 20.0


class Retrying(StoreWrapper):
    """Retries calls that were throttled or got no usable response; nothing else.

    Pauses grow exponentially with full jitter and are at least as long as the store asks for. All
    threads slow down together (see `AdaptiveConcurrency`).

    A delete is retried only for keys whose outcome may change. A key that an unanswered delete
    removed is then reported absent.

    A `write_new` without a response may have written. If its retry finds an object, the object is
    read: with our bytes it counts as ours. Writers that race for one key must therefore write
    something that only they would write.

    An interrupted `move` may have copied or moved the object. Its retry completes the move if the
    target holds the same bytes as the source.
    """

    def __init__(
        self, store: ObjectStore, clock: Clock, random: Random, policy: RetryPolicy | None = None
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._random = random
        self._policy = policy or RetryPolicy()
        self.concurrency = AdaptiveConcurrency(clock)
        self._has_answered = False

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        return self._retry(
            partial(self.store.list, prefix, one_level=one_level, after=after, cursor=cursor)
        )

    def head(self, key: str) -> ObjectInfo:
        return self._retry(partial(self.store.head, key))

    def read(self, key: str) -> bytes:
        return self._retry(partial(self.store.read, key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._retry(partial(self.store.read_range, key, start, length))

    def write(self, key: str, data: bytes) -> None:
        self._retry(partial(self.store.write, key, data))

    def copy(self, source: str, target: str) -> None:
        self._retry(partial(self.store.copy, source, target))

    def write_new(self, key: str, data: bytes) -> None:
        call = partial(self.store.write_new, key, data)
        self._retry_once(call, lambda: self._holds(key, data))

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        attempts = self._attempts()
        wanted = None if expected is None else dict(zip(keys, expected, strict=True))
        outcomes = self._delete(keys, wanted, attempts)
        # Repeated with their conditions: an object written in between must not be lost.
        while (again := _changeable(outcomes)) and attempts.pause():
            try:
                outcomes |= self._delete(again, wanted, attempts)
            except StorageError:  # the outcomes known so far still hold
                break
        return [outcomes[key] for key in keys]

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        call = partial(self.store.move, source, target, expected)
        is_done = partial(self._is_moved, source, target, expected)
        # A move takes several requests, so even a throttled one may be half done.
        self._retry_once(call, is_done, doubtful=_TRANSIENT)

    def keeps_versions(self) -> bool:
        return self._retry(self.store.keeps_versions)

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        call = partial(self.store.undelete, key, expected)
        self._retry_once(call, partial(object_exists, self, key), doubtful=_TRANSIENT)

    def _delete(
        self,
        keys: Sequence[str],
        expected: Mapping[str, Expected | None] | None,
        attempts: _Attempts,
    ) -> dict[str, Deletion]:
        wanted = None if expected is None else [expected[key] for key in keys]
        call = partial(self.store.delete, keys, wanted)
        answer = self._retry(call, attempts, _names_throttling)
        return {deletion.key: deletion for deletion in answer}

    def _holds(self, key: str, data: bytes) -> bool:
        try:
            return self.read(key) == data
        except MissingError:
            return False

    def _is_moved(self, source: str, target: str, expected: Expected | None) -> bool:
        """Whether an earlier attempt moved the object; completes one that only copied it."""
        if not object_exists(self, target):
            return False
        return not object_exists(self, source) or finish_move(self, source, target, expected)

    def _retry_once(
        self,
        call: Callable[[], None],
        is_done: Callable[[], bool],
        doubtful: tuple[type[Exception], ...] = (UnavailableError,),
    ) -> None:
        """Retry a call that can succeed only once.

        If it succeeded but the response was lost, its retry fails. `is_done` detects that.
        """
        attempts = self._attempts()
        is_doubtful = False
        while True:
            try:
                return self._once(call)
            except (ExistsError, MissingError):
                if is_doubtful and is_done():
                    return None
                raise
            except _TRANSIENT as error:
                is_doubtful = is_doubtful or isinstance(error, doubtful)
                if not self._pause(attempts, error):
                    raise

    def _retry(
        self,
        call: Callable[[], Answer],
        attempts: _Attempts | None = None,
        is_throttled: Callable[[Answer], bool] | None = None,
    ) -> Answer:
        attempts = attempts or self._attempts()
        while True:
            try:
                return self._once(call, is_throttled)
            except _TRANSIENT as error:
                if not self._pause(attempts, error):
                    raise

    def _pause(self, attempts: _Attempts, error: Exception) -> bool:
        """Sleep before the next attempt; False if there is none."""
        if isinstance(error, NoServerError) and not self._has_answered:
            attempts.end_within(self._policy.first_answer_seconds)
        return attempts.pause(_asked_pause(error))

    def _once(
        self, call: Callable[[], Answer], is_throttled: Callable[[Answer], bool] | None = None
    ) -> Answer:
        number = self.concurrency.begin()
        try:
            answer = call()
            self._has_answered = True
            if is_throttled is not None and is_throttled(answer):
                self.concurrency.slow_down(number)
            else:
                self.concurrency.speed_up()
        except ThrottledError as error:
            self._has_answered = True
            self.concurrency.slow_down(number, _asked_pause(error))
            raise
        finally:
            self.concurrency.end()
        return answer

    def _attempts(self) -> _Attempts:
        return _Attempts(self._clock, self._random, self._policy)


class _Attempts:
    """The remaining attempts at one call."""

    def __init__(self, clock: Clock, random: Random, policy: RetryPolicy) -> None:
        self._clock = clock
        self._random = random
        self._policy = policy
        self._made = 1
        self._began = clock.monotonic()
        self._deadline = self._began + policy.total_seconds

    def end_within(self, seconds: float) -> None:
        """Make no attempt later than this after the first."""
        self._deadline = min(self._deadline, self._began + seconds)

    def pause(self, at_least: float = 0.0) -> bool:
        """Sleep before the next attempt; False, at once, if there are no more."""
        if self._made >= self._policy.attempts:
            return False
        ceiling = self._policy.first_pause_seconds * 2 ** (self._made - 1)
        jitter = self._random.uniform(0, min(ceiling, self._policy.longest_pause_seconds))
        self._made += 1
        # Give up before sleeping past the deadline, not after.
        if self._clock.monotonic() + at_least + jitter > self._deadline:
            return False
        self._clock.sleep(at_least + jitter)
        return True


def _asked_pause(error: Exception) -> float:
    return getattr(error, "retry_after", None) or 0.0


def _names_throttling(deletions: Sequence[Deletion]) -> bool:
    return any(deletion.outcome is Outcome.THROTTLED for deletion in deletions)


def _changeable(outcomes: dict[str, Deletion]) -> list[str]:
    return [
        key
        for key, deletion in outcomes.items()
        if deletion.may_retry or deletion.outcome is Outcome.THROTTLED
    ]


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
