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

#: What an entry costs besides its key and its value: itself, its place in a queue, and what the
#: table of a queue keeps free in the worst moment.
ENTRY_BYTES = 400

_SHORT_SHARE = 10
_MOST_USES = 3
_BYTES_A_GHOST = 1024


class _Entry(Generic[Value]):
    __slots__ = ("size", "uses", "value")

    def __init__(self, value: Value, size: int) -> None:
        self.value = value
        self.size = size
        self.uses = 0


class EvictingMap(Generic[Key, Value]):
    """Values by key, of `max_bytes` at most with all that they cost. For one thread at a time."""

    def __init__(self, max_bytes: int) -> None:
        # One hash for each key that went, in a place that the next one may take.
        self._ghosts = array("q", bytes(8 * (1 + max_bytes // _BYTES_A_GHOST)))
        self._short: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._long: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._short_bytes = 0
        self._room = max_bytes - 8 * len(self._ghosts)
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
        """The value, which is used by that."""
        entry = self._short.get(key) or self._long.get(key)
        if entry is None:
            return None
        if entry.uses < _MOST_USES:
            entry.uses += 1
        return entry.value

    def peek(self, key: Key) -> Value | None:
        """The value, which is not used by that."""
        entry = self._short.get(key) or self._long.get(key)
        return None if entry is None else entry.value

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of so many bytes, key included. Others go for it; too large a one does."""
        is_known = self.drop(key) or self._is_ghost(key)
        entry = _Entry(value, size + ENTRY_BYTES)
        if entry.size > self._room:
            return
        while self._used + entry.size > self._room:
            self._push_out()
        self._used += entry.size
        if is_known:
            self._long[key] = entry
        else:
            self._short[key] = entry
            self._short_bytes += entry.size

    def drop(self, key: Key) -> bool:
        """Let a key go; whether it was there."""
        entry = self._short.pop(key, None)
        if entry is not None:
            self._short_bytes -= entry.size
        else:
            entry = self._long.pop(key, None)
        if entry is None:
            return False
        self._used -= entry.size
        return True

    def _push_out(self) -> None:
        """One step towards more room."""
        if self._short_bytes * _SHORT_SHARE >= self._room or not self._long:
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
