"""Limit and count the requests to one store: requests and bytes a second, requests at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from lakesweep.clock import Clock
from lakesweep.errors import ThrottledError
from lakesweep.storage.object_store import Deletion, Expected, ListingPage, ObjectInfo, ObjectStore
from lakesweep.storage.options import LoadLimits
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.storage.wrappers.rate_limit import Divisor, token_bucket, undivided
from lakesweep.storage.wrappers.used_load import CountedClock, LoadCounter

#: The requests of a move: the source is looked at, copied and deleted, and the copy looked at.
_MOVE_REQUESTS = 4
#: A deleted object is restored by listing its versions and deleting the marker above them.
_UNDELETE_REQUESTS = 2


class ConnectionLimit:
    """At most this many requests in flight; callers wait for their turn."""

    def __init__(self, most: int, divisor: Divisor) -> None:
        self._most = most
        self._divisor = divisor
        self._in_flight = 0
        self._condition = threading.Condition()

    def __reduce__(self) -> tuple[type[ConnectionLimit], tuple[int, Divisor]]:
        return type(self), (self._most, self._divisor)

    def __enter__(self) -> None:
        with self._condition:
            self._condition.wait_for(self._has_room)
            self._in_flight += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._in_flight -= 1
            self._condition.notify_all()

    def _has_room(self) -> bool:
        return self._in_flight < max(1, self._most // self._divisor())


class StoreLoad:
    """The limits and counts of one store, shared by everything in this process that uses it."""

    def __init__(
        self,
        clock: Clock,
        limits: LoadLimits,
        counter: LoadCounter,
        divisor: Divisor = undivided,
    ) -> None:
        self.counter = counter
        waiting = CountedClock(clock, counter)
        self._requests = token_bucket(waiting, limits.requests_per_second, divisor)
        self._bytes = token_bucket(waiting, limits.bytes_per_second, divisor)
        most = limits.max_connections
        self._connections = None if most is None else ConnectionLimit(most, divisor)

    @contextmanager
    def request(self, operation: str, count: int = 1) -> Iterator[None]:
        """Wait until requests may be sent, and count them."""
        with self._connection():
            if self._requests is not None:
                self._requests.take(count)
            if self._bytes is not None:
                self._bytes.take(0)  # until what was read before is paid for
            self.counter.add_requests(operation, count)
            try:
                yield
            except ThrottledError:
                self.counter.add_throttled()
                raise

    def transfer(self, *, read: int = 0, written: int = 0) -> None:
        """Count bytes; the next request waits until there is room for them."""
        self.counter.add_bytes(read=read, written=written)
        if self._bytes is not None:
            self._bytes.owe(read + written)

    def _connection(self) -> AbstractContextManager[None]:
        return nullcontext() if self._connections is None else self._connections


class LoadLimited(StoreWrapper):
    """Sends each request of a store when its limits allow it.

    Calls that take several requests are charged for what they usually take.
    """

    def __init__(self, store: ObjectStore, load: StoreLoad) -> None:
        super().__init__(store)
        self._load = load

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        with self._load.request("list"):
            return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        with self._load.request("head"):
            return self.store.head(key)

    def read(self, key: str) -> bytes:
        return self._read(lambda: self.store.read(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(lambda: self.store.read_range(key, start, length))

    def _read(self, read: Callable[[], bytes]) -> bytes:
        with self._load.request("read"):
            data = read()
        self._load.transfer(read=len(data))
        return data

    def write(self, key: str, data: bytes) -> None:
        with self._load.request("write"):
            self._load.transfer(written=len(data))
            self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        with self._load.request("write"):
            self._load.transfer(written=len(data))
            self.store.write_new(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        # Objects that were listed without an etag are looked at one by one.
        looks = sum(each is not None and each.etag is None for each in expected or ())
        with self._load.request("delete", 1 + looks):
            return self.store.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        with self._load.request("copy"):
            self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        with self._load.request("move", _MOVE_REQUESTS):
            self.store.move(source, target, expected)

    def keeps_versions(self) -> bool:
        with self._load.request("head"):
            return self.store.keeps_versions()

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        with self._load.request("undelete", _UNDELETE_REQUESTS):
            self.store.undelete(key, expected)
