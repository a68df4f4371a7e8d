"""Rate-limit the deletes and moves of one store, by files and by requests a second."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from lakesweep.clock import Clock
from lakesweep.storage.object_store import Deletion, Expected, ObjectStore, StorageCapabilities
from lakesweep.storage.wrappers.base import StoreWrapper


class TokenBucket:
    """Hands out `per_second` tokens a second to all threads together, evenly.

    A token that is not taken is lost, so a pause is never followed by a burst.
    """

    def __init__(self, clock: Clock, per_second: float) -> None:
        if per_second <= 0:
            raise ValueError("a rate limit must be above zero")
        self._clock = clock
        self.per_second = per_second
        self._lock = threading.Lock()
        self._free_at = clock.monotonic()

    def __reduce__(self) -> tuple[type[TokenBucket], tuple[Clock, float]]:
        return type(self), (self._clock, self.per_second)

    def take(self, tokens: int) -> None:
        """Return when it is this caller's turn; the next one waits for the tokens taken."""
        with self._lock:
            now = self._clock.monotonic()
            turn = max(now, self._free_at)
            self._free_at = turn + tokens / self.per_second
        self._clock.sleep(turn - now)


class RateLimited(StoreWrapper):
    """Holds deletes and moves to a number of files and of calls a second, None for no limit.

    A call takes at most the files of one second, so that deletes are spread evenly.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        files_per_second: float | None = None,
        batches_per_second: float | None = None,
    ) -> None:
        super().__init__(store)
        self._files = None if files_per_second is None else TokenBucket(clock, files_per_second)
        self._batches = (
            None if batches_per_second is None else TokenBucket(clock, batches_per_second)
        )
        self._files_per_second = files_per_second

    @property
    def capabilities(self) -> StorageCapabilities:
        return _spread(self.store.capabilities, self._files_per_second)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        self._wait(len(keys))
        return self.store.delete(keys, expected)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._wait(1)
        self.store.move(source, target, expected)

    def _wait(self, files: int) -> None:
        if self._batches is not None:
            self._batches.take(1)
        if self._files is not None:
            self._files.take(files)


def _spread(
    capabilities: StorageCapabilities, files_per_second: float | None
) -> StorageCapabilities:
    if files_per_second is None:
        return capabilities
    batch = min(capabilities.delete_batch, max(1, int(files_per_second)))
    return replace(capabilities, delete_batch=batch)
