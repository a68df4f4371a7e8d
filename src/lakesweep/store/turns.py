"""First come, first served, for each thing by itself."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from lakesweep.errors import ContendedError


class Turns:
    """Lets the threads of this process through one after another, in the order in which they came.

    Who finds nobody waiting for the same thing does not wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[Hashable, deque[threading.Event]] = {}

    @contextmanager
    def take(self, thing: Hashable, seconds: float) -> Iterator[None]:
        """Hold the thing. ContendedError if that takes longer than these seconds."""
        ticket = self._join(thing)
        try:
            if not ticket.wait(seconds):
                raise ContendedError(f"{thing}: others were busy with it for {seconds:.0f} seconds")
            yield
        finally:
            self._leave(thing, ticket)

    def _join(self, thing: Hashable) -> threading.Event:
        ticket = threading.Event()
        with self._lock:
            queue = self._queues.setdefault(thing, deque())
            queue.append(ticket)
            if len(queue) == 1:
                ticket.set()
        return ticket

    def _leave(self, thing: Hashable, ticket: threading.Event) -> None:
        with self._lock:
            queue = self._queues[thing]
            queue.remove(ticket)
            if queue:
                queue[0].set()
            else:
                del self._queues[thing]
