"""A few dozen sorted entries, each key without what it shares with the one before.

An entry is three numbers (bytes shared, further bytes, bytes of the value plus one), the further
bytes of the key, and the value. In the place of a value's size a zero marks a removed key.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from lakesweep.errors import DamagedError
from lakesweep.store.index import varint


class Mark(Enum):
    """What stands in the place of a value."""

    REMOVED = "removed"


REMOVED: Final = Mark.REMOVED

Stored: TypeAlias = bytes | Mark
Entry: TypeAlias = tuple[bytes, Stored]
Entries: TypeAlias = tuple[Sequence[bytes], Sequence[Stored]]

_ENTRY_HEAD = 3


class Block:
    """Encoded entries, checked and decoded when first asked for."""

    __slots__ = ("_entries", "_first", "checksum", "count", "data")

    def __init__(self, data: bytes, count: int, checksum: int) -> None:
        self.data = data
        self.count = count
        self.checksum = checksum
        self._first: bytes | None = None
        self._entries: Entries | None = None

    @classmethod
    def of(cls, keys: Sequence[bytes], values: Sequence[Stored]) -> Block:
        """The block of some entries, which are sorted."""
        data = _encode(keys, values)
        block = cls(data, len(keys), zlib.crc32(data))
        block._first = keys[0]
        block._entries = keys, values
        return block

    @property
    def first(self) -> bytes:
        """The first key."""
        if self._first is None:
            self._check()
            self._first = _first_key(self.data)
        return self._first

    @property
    def entries(self) -> Entries:
        """All keys, and the value of each."""
        if self._entries is None:
            self._check()
            keys, values = _decode(self.data)
            if len(keys) != self.count:
                raise _damaged("holds another number of entries than it says")
            self._entries = keys, values
        return self._entries

    def _check(self) -> None:
        if zlib.crc32(self.data) != self.checksum:
            raise _damaged("does not match its checksum")


def weight(key: bytes, value: Stored) -> int:
    """About how many bytes an entry takes, and never fewer than it does take for short ones."""
    return _ENTRY_HEAD + len(key) + (0 if value is REMOVED else len(value))


def shared_size(one: bytes, other: bytes) -> int:
    """How many bytes two keys have in common at their beginning."""
    size = min(len(one), len(other))
    difference = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (difference.bit_length() + 7) // 8


def _encode(keys: Sequence[bytes], values: Sequence[Stored]) -> bytes:
    parts = []
    before = b""
    for key, value in zip(keys, values, strict=True):
        shared = shared_size(before, key)
        further = len(key) - shared
        tag = 0 if value is REMOVED else len(value) + 1
        if (shared | further | tag) < 0x80:
            parts.append(bytes((shared, further, tag)))
        else:
            parts.append(b"".join(map(varint.write, (shared, further, tag))))
        parts.append(key[shared:])
        if value is not REMOVED:
            parts.append(value)
        before = key
    return b"".join(parts)


def _decode(data: bytes) -> tuple[list[bytes], list[Stored]]:
    keys: list[bytes] = []
    values: list[Stored] = []
    key, place, end = b"", 0, len(data)
    while place < end:
        shared, further, tag, place = _entry_head(data, place)
        middle = place + further
        after = middle + tag - 1 if tag else middle
        if shared > len(key) or after > end:
            raise _damaged("has an entry that reaches beyond it")
        before, key = key, key[:shared] + data[place:middle]
        if key <= before and keys:
            raise _damaged("is not sorted")
        keys.append(key)
        values.append(data[middle:after] if tag else REMOVED)
        place = after
    return keys, values


def _first_key(data: bytes) -> bytes:
    _, further, _, place = _entry_head(data, 0)
    if place + further > len(data):
        raise _damaged("has an entry that reaches beyond it")
    return data[place : place + further]


def _entry_head(data: bytes, place: int) -> tuple[int, int, int, int]:
    """Bytes shared, further bytes, the tag of the value, and the place behind them."""
    head = data[place : place + _ENTRY_HEAD]
    if len(head) == _ENTRY_HEAD and (head[0] | head[1] | head[2]) < 0x80:
        return head[0], head[1], head[2], place + _ENTRY_HEAD
    shared, place = varint.read(data, place)
    further, place = varint.read(data, place)
    tag, place = varint.read(data, place)
    return shared, further, tag, place


def _damaged(reason: str) -> DamagedError:
    return DamagedError("index block", reason)
