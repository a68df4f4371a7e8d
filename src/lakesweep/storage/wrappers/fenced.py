"""Stores that check before every request that changes something whether the run may go on.

A process may be stopped at any moment, and wake up long after another run took over. What it was
about to send then must not be sent. So the check is made right before each request, below
retries and rate limits, both of which wait. What is left is the one request that each thread may
already be sending.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from lakesweep.errors import (
    LeaseHeldError,
    StoppedError,
    StorageError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.address import Address
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ObjectStore,
    Outcome,
    StorageCapabilities,
    StoreOpener,
)
from lakesweep.storage.wrappers.base import BoundedReads, StoreWrapper
from lakesweep.storage.wrappers.load_limit import LoadLimited
from lakesweep.storage.wrappers.rate_limit import RateLimited
from lakesweep.storage.wrappers.retry import Retrying

#: At most this many keys in one request: what a run that was stopped in the middle may delete late.
MAX_KEYS = 100

#: Raises one of RUN_ENDED if the run must not change anything any more.
FenceCheck = Callable[[], None]
RUN_ENDED = (LeaseHeldError, StoppedError)


class Fenced(StoreWrapper):
    """Checks the fence before each request that changes something; keys that it stops are UNSENT.

    In a file system a delete costs no round trip, so it checks before each file.
    """

    def __init__(self, store: ObjectStore, check: FenceCheck) -> None:
        super().__init__(store)
        self._check = check

    @property
    def capabilities(self) -> StorageCapabilities:
        found = self.store.capabilities
        return replace(found, delete_batch=min(found.delete_batch, MAX_KEYS))

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        size = 1 if self.store.capabilities.renames else max(len(keys), 1)
        wanted = [None] * len(keys) if expected is None else expected
        found: list[Deletion] = []
        for start in range(0, len(keys), size):
            part = slice(start, start + size)
            try:
                found += self._delete(keys[part], None if expected is None else wanted[part])
            except StorageError as error:
                if not found:
                    raise
                # What was deleted before stays known; the rest can be tried again.
                return [*found, *(_failed(key, error) for key in keys[start:])]
        return found

    def write(self, key: str, data: bytes) -> None:
        self._check()
        self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self._check()
        self.store.write_new(key, data)

    def copy(self, source: str, target: str) -> None:
        self._check()
        self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._check()
        self.store.move(source, target, expected)

    def undelete(self, key: str, expected: Expected | None = None) -> None:
        self._check()
        self.store.undelete(key, expected)

    def _delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None
    ) -> Sequence[Deletion]:
        try:
            self._check()
        except RUN_ENDED as error:
            return [Deletion(key, Outcome.UNSENT, error.message) for key in keys]
        return self.store.delete(keys, expected)


def _failed(key: str, error: StorageError) -> Deletion:
    is_throttled = isinstance(error, ThrottledError)
    outcome = Outcome.THROTTLED if is_throttled else Outcome.FAILED
    may_retry = is_throttled or isinstance(error, UnavailableError)
    return Deletion(key, outcome, error.reason, may_retry)


@dataclass(frozen=True)
class FencedStores:
    """Opens stores that check a fence. They share connections and rate limits with the others."""

    stores: StoreOpener
    check: FenceCheck

    def open(self, address: Address) -> ObjectStore:
        return _fenced(self.stores.open(address), self.check)


#: What waits, or calls more than once, stays above the check.
_ABOVE = (Retrying, RateLimited, BoundedReads, LoadLimited)


def _fenced(store: ObjectStore, check: FenceCheck) -> ObjectStore:
    if not isinstance(store, _ABOVE):
        return Fenced(store, check)
    outer = cast("StoreWrapper", copy.copy(store))
    outer.store = _fenced(outer.store, check)
    return outer
