"""What servers do or do not do, found out once for each store."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Habit:
    """Something that a server may do. What is not known is found out by the first who asks."""

    def __init__(self, known: bool | None = None) -> None:
        self._known = known
        self._finding = threading.Lock()

    @property
    def is_possible(self) -> bool:
        """False only where the server is known not to do it."""
        return self._known is not False

    def find(self, probe: Callable[[], bool]) -> bool:
        """Whether the server does it. An error of `probe` leaves it unknown."""
        with self._finding:
            if self._known is None:
                self._known = probe()
        return self._known
