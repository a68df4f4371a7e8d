"""Fair locks between the threads of a process: first come, first served, per key."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable

from lakesweep.errors import ContendedError
from lakesweep.store.backends.wrapper import ProcessOwner


class FairLocks:
    """Serialises the threads of this process per key, in the order of arrival.

    Without contention there is no waiting. The locks are not reentrant.
    """

    def __init__(self) -> None:
        self._owner = ProcessOwner()
        self._lock = threading.Lock()
        # The waiting threads per held key: each has a lock that is released when its turn comes.
        self._queues: dict[Hashable, deque[threading.Lock]] = {}
        self._holders: dict[Hashable, int] = {}

    def take(self, key: Hashable, seconds: float) -> _HeldLock:
        """A block that holds the key. ContendedError if that takes longer than these seconds."""
        return _HeldLock(self, key, seconds)

    def enter(self, key: Hashable, seconds: float) -> None:
        """Wait until the key is free, and hold it."""
        self._owner.check()
        me = threading.get_ident()
        if self._holders.get(key) == me:
            raise RuntimeError(f"{key}: a nested commit to the same reference would deadlock")
        with self._lock:
            ticket = self._join(key)
        if ticket is not None:
            self._wait(key, ticket, seconds)
        self._holders[key] = me

    def leave(self, key: Hashable) -> None:
        """Release the key, or hand it over to the next waiting thread."""
        with self._lock:
            self._holders.pop(key, None)
            queue = self._queues[key]
            if queue:
                queue.popleft().release()
            else:
                del self._queues[key]

    def _join(self, key: Hashable) -> threading.Lock | None:
        """A ticket for a new waiter; None if the key was free."""
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = deque()
            return None
        ticket = threading.Lock()
        ticket.acquire()
        queue.append(ticket)
        return ticket

    def _wait(self, key: Hashable, ticket: threading.Lock, seconds: float) -> None:
        try:
            came = ticket.acquire(timeout=seconds)
        except BaseException:
            if not self._withdraw(key, ticket):
                self.leave(key)
            raise
        if not came and self._withdraw(key, ticket):
            raise ContendedError(f"{key}: still locked after {seconds:.0f} seconds")

    def _withdraw(self, key: Hashable, ticket: threading.Lock) -> bool:
        """Stop waiting; False if the key was handed over at the last moment."""
        with self._lock:
            queue = self._queues[key]
            waited = ticket in queue
            if waited:
                queue.remove(ticket)
            return waited


class _HeldLock:
    """Holds a key while its block runs."""

    __slots__ = ("_key", "_locks", "_seconds")

    def __init__(self, locks: FairLocks, key: Hashable, seconds: float) -> None:
        self._locks = locks
        self._key = key
        self._seconds = seconds

    def __enter__(self) -> None:
        self._locks.enter(self._key, self._seconds)

    def __exit__(self, *_: object) -> None:
        self._locks.leave(self._key)
