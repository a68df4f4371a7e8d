"""A map of limited size in bytes, with S3-FIFO eviction.

New entries start in a short queue, a tenth of all bytes; those used there move to the long queue,
the others are evicted. An entry that reaches the end of the long queue starts over if it was used
in the meantime. A key that returns soon after its eviction enters the long queue at once. So a
scan that reads everything once evicts nothing that is in use.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

#: The cost of an entry besides its key and value: itself, its slot in a queue, and the worst-case
#: free space in the queue's table.
ENTRY_BYTES = 400

_SHORT_SHARE = 10
_MAX_USES = 3
_BYTES_PER_GHOST = 1024


class _Entry(Generic[Value]):
    __slots__ = ("size", "uses", "value")

    def __init__(self, value: Value, size: int) -> None:
        self.value = value
        self.size = size
        self.uses = 0


class EvictingMap(Generic[Key, Value]):
    """Values by key, of at most `max_bytes` including overhead. For one thread at a time."""

    def __init__(self, max_bytes: int) -> None:
        # One hash for each evicted key, in a slot that the next one may overwrite.
        self._ghosts = array("q", bytes(8 * (1 + max_bytes // _BYTES_PER_GHOST)))
        self._short: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._long: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._short_bytes = 0
        self._capacity = max_bytes - 8 * len(self._ghosts)
        self._used = 0

    @property
    def bytes(self) -> int:
        return 8 * len(self._ghosts) + self._used

    def __len__(self) -> int:
        return len(self._short) + len(self._long)

    def __iter__(self) -> Iterator[Key]:
        yield from self._short
        yield from self._long

    def get(self, key: Key) -> Value | None:
        """The value; counts as a use."""
        entry = self._short.get(key) or self._long.get(key)
        if entry is None:
            return None
        if entry.uses < _MAX_USES:
            entry.uses += 1
        return entry.value

    def peek(self, key: Key) -> Value | None:
        """The value; does not count as a use."""
        entry = self._short.get(key) or self._long.get(key)
        return None if entry is None else entry.value

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of this size, key included, evicting others; too large a one is not kept."""
        is_known = self.drop(key) or self._is_ghost(key)
        entry = _Entry(value, size + ENTRY_BYTES)
        if entry.size > self._capacity:
            return
        while self._used + entry.size > self._capacity:
            self._evict_one()
        self._used += entry.size
        if is_known:
            self._long[key] = entry
        else:
            self._short[key] = entry
            self._short_bytes += entry.size

    def drop(self, key: Key) -> bool:
        """Remove a key; returns whether it was there."""
        entry = self._short.pop(key, None)
        if entry is not None:
            self._short_bytes -= entry.size
        else:
            entry = self._long.pop(key, None)
        if entry is None:
            return False
        self._used -= entry.size
        return True

    def _evict_one(self) -> None:
        """One step of eviction."""
        if self._short_bytes * _SHORT_SHARE >= self._capacity or not self._long:
            key, entry = self._short.popitem(last=False)
            self._short_bytes -= entry.size
            if entry.uses:
                entry.uses = 0
                self._long[key] = entry
                return
            self._ghosts[hash(key) % len(self._ghosts)] = hash(key)
        else:
            key, entry = self._long.popitem(last=False)
            if entry.uses:
                entry.uses -= 1
                self._long[key] = entry
                return
        self._used -= entry.size

    def _is_ghost(self, key: Key) -> bool:
        return self._ghosts[hash(key) % len(self._ghosts)] == hash(key)
