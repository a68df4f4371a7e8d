"""What can be asked of an index, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from operator import gt, lt
from typing import Generic, TypeVar

from lakesweep.store.index.block import REMOVED, Entry, Stored
from lakesweep.store.index.codec import Codec
from lakesweep.store.index.keys import component_end, prefix_end

V = TypeVar("V")


class Reading(ABC, Generic[V]):
    """An ordered map that can be read. Ranges are half open and may be read backwards."""

    __slots__ = ("codec",)

    def __init__(self, codec: Codec[V]) -> None:
        self.codec = codec

    @abstractmethod
    def stored(self, key: bytes) -> Stored | None:
        """What the topmost layer that knows the key has for it."""

    @abstractmethod
    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        """All layers as one, with the marks of removed keys."""

    def get(self, key: bytes) -> V | None:
        """The value of a key; None where it has none."""
        stored = self.stored(key)
        return self.codec.decode(stored) if isinstance(stored, bytes) else None

    def __contains__(self, key: bytes) -> bool:
        return isinstance(self.stored(key), bytes)

    def items(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """The entries from `start` up to but without `stop`, or backwards."""
        decode = self.codec.decode
        for key, stored in self.entries(start, stop, reverse=reverse):
            if stored is not REMOVED:
                yield key, decode(stored)

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, V]]:
        """The entries whose keys begin with a prefix, or backwards."""
        return self.items(prefix, prefix_end(prefix), reverse=reverse)

    def heads(self, prefix: bytes = b"") -> Iterator[bytes]:
        """The distinct keys of one more component than the prefix that something begins with.

        Jumps from one to the next: what lies below them is neither loaded nor decoded. The keys
        under the prefix must be encoded tuples, as the prefix must.
        """
        start: bytes | None = prefix
        stop = prefix_end(prefix)
        while start is not None and (key := self._first_from(start, stop)) is not None:
            if key == prefix:
                start = prefix + b"\x00"
                continue
            head = key[: component_end(key, len(prefix))]
            yield head
            start = prefix_end(head)

    def _first_from(self, start: bytes, stop: bytes | None) -> bytes | None:
        for key, stored in self.entries(start, stop, reverse=False):
            if stored is not REMOVED:
                return key
        return None


def overlay(upper: Iterator[Entry], lower: Iterator[Entry], *, reverse: bool) -> Iterator[Entry]:
    """Two layers as one; where both have a key the upper one counts."""
    precedes = gt if reverse else lt
    above = next(upper, None)
    if above is None:
        yield from lower
        return
    for entry in lower:
        while above is not None and precedes(above[0], entry[0]):
            yield above
            above = next(upper, None)
        if above is not None and above[0] == entry[0]:
            yield above
            above = next(upper, None)
        else:
            yield entry
    if above is not None:
        yield above
        yield from upper
