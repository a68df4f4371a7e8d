"""Count what a process asks of stores and catalogs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from lakesweep.clock import Clock


class UsedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What was used: requests by operation, bytes of objects, and waiting.

    `throttled_requests` are those that a store refused because there were too many;
    `throttled_seconds` is how long threads waited for limits, and before they tried again.
    """

    requests: dict[str, int] = {}
    bytes_read: int = 0
    bytes_written: int = 0
    catalog_requests: int = 0
    throttled_requests: int = 0
    throttled_seconds: float = 0.0

    def plus(self, other: UsedLoad, sign: int = 1) -> UsedLoad:
        """The sum of both, or the difference."""
        return UsedLoad(
            requests=_sum(self.requests, other.requests, sign),
            bytes_read=self.bytes_read + sign * other.bytes_read,
            bytes_written=self.bytes_written + sign * other.bytes_written,
            catalog_requests=self.catalog_requests + sign * other.catalog_requests,
            throttled_requests=self.throttled_requests + sign * other.throttled_requests,
            throttled_seconds=round(self.throttled_seconds + sign * other.throttled_seconds, 3),
        )

    def since(self, earlier: UsedLoad) -> UsedLoad:
        """What was used since an earlier moment."""
        return self.plus(earlier, -1)


def _sum(one: Mapping[str, int], other: Mapping[str, int], sign: int) -> dict[str, int]:
    names = sorted({*one, *other})
    found = {name: one.get(name, 0) + sign * other.get(name, 0) for name in names}
    return {name: count for name, count in found.items() if count}


class LoadCounter:
    """Counts what all threads of a process use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._catalog_requests = 0
        self._throttled = 0
        self._waited = 0.0

    def __reduce__(self) -> tuple[type[LoadCounter], tuple[()]]:
        # Another process counts for itself.
        return type(self), ()

    def add_requests(self, operation: str, count: int = 1) -> None:
        with self._lock:
            self._requests[operation] += count

    def add_bytes(self, *, read: int = 0, written: int = 0) -> None:
        with self._lock:
            self._bytes["read"] += read
            self._bytes["written"] += written

    def add_catalog_request(self) -> None:
        with self._lock:
            self._catalog_requests += 1

    def add_throttled(self) -> None:
        """Count a request that was refused because there were too many."""
        with self._lock:
            self._throttled += 1

    def add_wait(self, seconds: float) -> None:
        with self._lock:
            self._waited += max(0.0, seconds)

    def used(self) -> UsedLoad:
        """The counts so far."""
        with self._lock:
            return UsedLoad(
                requests=dict(sorted(self._requests.items())),
                bytes_read=self._bytes["read"],
                bytes_written=self._bytes["written"],
                catalog_requests=self._catalog_requests,
                throttled_requests=self._throttled,
                throttled_seconds=round(self._waited, 3),
            )


@dataclass(frozen=True, slots=True)
class CountedClock:
    """A clock whose sleeps count as waiting. Can be pickled, as its counter is not shared then."""

    clock: Clock
    counter: LoadCounter

    def now(self) -> datetime:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self.counter.add_wait(seconds)
        self.clock.sleep(seconds)
