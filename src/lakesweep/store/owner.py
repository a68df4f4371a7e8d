"""Whose a store is."""

from __future__ import annotations

import os

from lakesweep.errors import StoreError


class Owner:
    """The process that opened a store.

    Locks that a thread of it held during a fork are never let go of in the child, and connections
    would be shared. So a child is turned away before it comes to either.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_me(self) -> bool:
        return self._process == os.getpid()

    def check(self) -> None:
        """StoreError in any other process."""
        if not self.is_me:
            raise StoreError(
                f"this store belongs to process {self._process}, and this one was forked from it",
                hint="open a store of its own in each process",
            )
