"""Rate-limit the deletes and moves of one store, by files and by requests a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from lakesweep.clock import Clock
from lakesweep.storage.object_store import Deletion, Expected, ObjectStore, StorageCapabilities
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.wrappers.base import StoreWrapper

#: How many processes share a limit at this moment, each with an equal part.
Divisor = Callable[[], int]


def undivided() -> int:
    """For a limit that this process has alone."""
    return 1


class TokenBucket:
    """Hands out `per_second` tokens a second to all threads together, evenly.

    Unused tokens are lost, so a pause is never followed by a burst.
    """

    def __init__(self, clock: Clock, per_second: float, divisor: Divisor = undivided) -> None:
        if per_second <= 0:
            raise ValueError("a rate limit must be above zero")
        self._clock = clock
        self.per_second = per_second
        self._divisor = divisor
        self._lock = threading.Lock()
        self._free_at = clock.monotonic()

    def __reduce__(self) -> tuple[type[TokenBucket], tuple[Clock, float, Divisor]]:
        return type(self), (self._clock, self.per_second, self._divisor)

    def take(self, tokens: int) -> None:
        """Wait for this caller's turn; the next caller waits for the tokens taken."""
        with self._lock:
            now = self._clock.monotonic()
            # Never earlier than now: unused time is not saved up for a burst.
            turn = max(now, self._free_at)
            self._free_at = turn + self._seconds(tokens)
        self._clock.sleep(turn - now)

    def owe(self, tokens: int) -> None:
        """Take tokens that are used up already, without waiting; the next caller waits for them."""
        with self._lock:
            self._free_at = max(self._clock.monotonic(), self._free_at) + self._seconds(tokens)

    def _seconds(self, tokens: int) -> float:
        return tokens * self._divisor() / self.per_second


class DeleteLimiter:
    """Holds everything that shares it to one delete rate; can be shared by threads and pickled."""

    def __init__(self, clock: Clock, rate: DeleteRate, divisor: Divisor = undivided) -> None:
        self.rate = rate
        self._batches = token_bucket(clock, rate.batches_per_second, divisor)
        self._files = token_bucket(clock, rate.files_per_second, divisor)

    def wait(self, files: int) -> None:
        """Return when a request that deletes this many files may be sent."""
        if self._batches is not None:
            self._batches.take(1)
        if self._files is not None:
            self._files.take(files)


def token_bucket(
    clock: Clock, per_second: float | None, divisor: Divisor = undivided
) -> TokenBucket | None:
    """The bucket of a rate; None for no limit."""
    return None if per_second is None else TokenBucket(clock, per_second, divisor)


class RateLimited(StoreWrapper):
    """Rate-limits the deletes and moves of a store."""

    def __init__(self, store: ObjectStore, limiter: DeleteLimiter) -> None:
        super().__init__(store)
        self._limiter = limiter

    @property
    def capabilities(self) -> StorageCapabilities:
        found, largest = self.store.capabilities, self._limiter.rate.largest_batch
        if largest is None:
            return found
        return replace(found, delete_batch=min(found.delete_batch, largest))

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        self._limiter.wait(len(keys))
        return self.store.delete(keys, expected)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._limiter.wait(1)
        self.store.move(source, target, expected)
