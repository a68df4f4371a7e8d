"""Fair locks between the threads of a process: first come, first served, per key."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable

from lakesweep.errors import ContendedError
from lakesweep.store.backends.wrapper import ProcessOwner


class FairLocks:
    """Lets the threads of this process through one after another, in the order in which they came.

    Who finds nobody waiting for the same thing does not wait. Who holds a thing
    cannot take it again.
    """

    def __init__(self) -> None:
        self._owner = ProcessOwner()
        self._lock = threading.Lock()
        # Who waits for a thing that somebody holds: each has a lock that opens when its turn comes.
        self._queues: dict[Hashable, deque[threading.Lock]] = {}
        self._holders: dict[Hashable, int] = {}

    def take(self, thing: Hashable, seconds: float) -> _Turn:
        """A block that holds the thing. ContendedError if that takes longer than these seconds."""
        return _Turn(self, thing, seconds)

    def enter(self, thing: Hashable, seconds: float) -> None:
        """Wait until the thing is free, and hold it."""
        self._owner.check()
        me = threading.get_ident()
        if self._holders.get(thing) == me:
            raise RuntimeError(f"{thing}: a change of it began another one, which would never come")
        with self._lock:
            ticket = self._join(thing)
        if ticket is not None:
            self._wait(thing, ticket, seconds)
        self._holders[thing] = me

    def leave(self, thing: Hashable) -> None:
        """Let go of the thing, or hand it over to whoever came next."""
        with self._lock:
            self._holders.pop(thing, None)
            queue = self._queues[thing]
            if queue:
                queue.popleft().release()
            else:
                del self._queues[thing]

    def _join(self, thing: Hashable) -> threading.Lock | None:
        """The ticket of whoever came last; None if nobody holds the thing."""
        queue = self._queues.get(thing)
        if queue is None:
            self._queues[thing] = deque()
            return None
        ticket = threading.Lock()
        ticket.acquire()
        queue.append(ticket)
        return ticket

    def _wait(self, thing: Hashable, ticket: threading.Lock, seconds: float) -> None:
        try:
            came = ticket.acquire(timeout=seconds)
        except BaseException:
            if not self._withdraw(thing, ticket):
                self.leave(thing)
            raise
        if not came and self._withdraw(thing, ticket):
            raise ContendedError(f"{thing}: others were busy with it for {seconds:.0f} seconds")

    def _withdraw(self, thing: Hashable, ticket: threading.Lock) -> bool:
        """Give up waiting; False if the thing was handed over in the last moment."""
        with self._lock:
            queue = self._queues[thing]
            waited = ticket in queue
            if waited:
                queue.remove(ticket)
            return waited


class _Turn:
    """Holds a thing while its block runs."""

    __slots__ = ("_seconds", "_thing", "_turns")

    def __init__(self, turns: FairLocks, thing: Hashable, seconds: float) -> None:
        self._turns = turns
        self._thing = thing
        self._seconds = seconds

    def __enter__(self) -> None:
        self._turns.enter(self._thing, self._seconds)

    def __exit__(self, *_: object) -> None:
        self._turns.leave(self._thing)
