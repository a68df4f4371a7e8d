"""A block: a few dozen sorted entries, column by column, with prefix-compressed keys.

    width         1 byte: 1, 2 or 4, the bytes of each number below, little-endian
    numbers       for each entry the bytes that its key shares with the previous one;
                  then for each its further bytes; then for each the bytes of its value plus one
    keys          the further bytes of all keys
    values        all values

A value size of zero is a tombstone: it marks a removed key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import accumulate, pairwise
from operator import ge, lt, xor
from typing import Final, TypeAlias, TypeVar

from lakesweep.errors import DamagedError


class Tombstone(Enum):
    """What is stored instead of a value."""

    REMOVED = "removed"


REMOVED: Final = Tombstone.REMOVED

T = TypeVar("T")
Stored: TypeAlias = bytes | Tombstone
Entry: TypeAlias = tuple[bytes, Stored]
Entries: TypeAlias = tuple[Sequence[bytes], Sequence[Stored]]

_CODES = {1: "B", 2: "H", 4: "I"}
_COLUMNS = 3


class Block:
    """Encoded entries, verified and decoded on first use."""

    __slots__ = ("_entries", "_first", "_name", "checksum", "count", "data")

    def __init__(self, data: bytes, count: int, checksum: int, name: str = "index block") -> None:
        self._name = name
        self.data = data
        self.count = count
        self.checksum = checksum
        self._first: bytes | None = None
        self._entries: Entries | None = None

    @classmethod
    def of(cls, keys: Sequence[bytes], values: Sequence[Stored]) -> Block:
        """The block of some sorted entries."""
        data = _encode(keys, values)
        block = cls(data, len(keys), zlib.crc32(data))
        block._first = keys[0]
        block._entries = keys, values
        return block

    @property
    def first(self) -> bytes:
        """The first key."""
        if self._first is None:
            self._first = self._read(_first_key)
        return self._first

    @property
    def entries(self) -> Entries:
        """All keys and their values."""
        if self._entries is None:
            self._entries = self._read(_decode)
        return self._entries

    @property
    def values(self) -> Sequence[bytes]:
        """The values alone, without those of removed keys: faster, for what needs no keys."""
        if self._entries is None:
            return self._read(_stored_values)
        return [value for value in self._entries[1] if value is not REMOVED]

    def _read(self, decode: Callable[[bytes, int], T]) -> T:
        if zlib.crc32(self.data) != self.checksum:
            raise DamagedError(self._name, "a block does not match its checksum")
        try:
            return decode(self.data, self.count)
        except ValueError as error:
            raise DamagedError(self._name, f"a block {error}") from error


def weights(keys: Iterable[bytes], values: Iterable[Stored]) -> list[int]:
    """The approximate size of entries in bytes; never less than short ones take."""
    pairs = zip(keys, values, strict=True)
    return [_COLUMNS + len(key) + (0 if value is REMOVED else len(value)) for key, value in pairs]


def shared_sizes(keys: Sequence[bytes]) -> list[int]:
    """The length of the prefix that each key shares with the previous one."""
    sizes = list(map(len, keys))
    longest = max(sizes)
    # As numbers of one width, keys differ from their highest different bit on.
    numbers = [int.from_bytes(key.ljust(longest, b"\x00"), "big") for key in keys]
    same = [longest - (bits.bit_length() + 7) // 8 for bits in map(xor, numbers, numbers[1:])]
    return [0, *map(min, same, sizes, sizes[1:])]


def _encode(keys: Sequence[bytes], values: Sequence[Stored]) -> bytes:
    shared = shared_sizes(keys)
    further = [len(key) - size for key, size in zip(keys, shared, strict=True)]
    tags = [0 if value is REMOVED else len(value) + 1 for value in values]
    widest = max(*shared, *further, *tags)
    width = 1 if widest < 2**8 else 2 if widest < 2**16 else 4
    numbers = struct.pack(
        f"<B{_COLUMNS * len(keys)}{_CODES[width]}", width, *shared, *further, *tags
    )
    ends = [key[size:] for key, size in zip(keys, shared, strict=True)]
    return b"".join((numbers, *ends, *(value for value in values if value is not REMOVED)))


def _decode(data: bytes, count: int) -> tuple[list[bytes], list[Stored]]:
    shared, further, tags, body = _numbers(data, count)
    sizes = [size + more for size, more in zip(shared, further, strict=True)]
    if shared[0] or not all(map(ge, sizes, shared[1:])):
        raise ValueError("shares more of a key than exists")
    bounds = list(accumulate(further, initial=body))
    keys = []
    key = b""
    for size, (start, stop) in zip(shared, pairwise(bounds), strict=True):
        key = key[:size] + data[start:stop]
        keys.append(key)
    if not all(map(lt, keys, keys[1:])):
        raise ValueError("is not sorted")
    return keys, _decode_values(data, tags, bounds[-1])


def _first_key(data: bytes, count: int) -> bytes:
    width = data[0]
    further = int.from_bytes(data[1 + count * width : 1 + (count + 1) * width], "little")
    body = 1 + _COLUMNS * count * width
    if body + further > len(data):
        raise ValueError("ends inside its first key")
    return data[body : body + further]


def _decode_values(data: bytes, tags: Sequence[int], start: int) -> list[Stored]:
    bounds = pairwise(accumulate([tag - 1 if tag else 0 for tag in tags], initial=start))
    pairs = zip(tags, bounds, strict=True)
    return [data[start:stop] if tag else REMOVED for tag, (start, stop) in pairs]


def _stored_values(data: bytes, count: int) -> list[bytes]:
    _, further, tags, body = _numbers(data, count)
    sizes = [tag - 1 for tag in tags if tag]
    bounds = accumulate(sizes, initial=body + sum(further))
    return [data[start:stop] for start, stop in pairwise(bounds)]


def _numbers(data: bytes, count: int) -> tuple[Sequence[int], Sequence[int], Sequence[int], int]:
    """The three columns of numbers, and the offset of the keys."""
    code = _CODES.get(data[0])
    if code is None:
        raise ValueError(f"has an invalid number width of {data[0]} bytes")
    layout = f"<{_COLUMNS * count}{code}"
    body = 1 + struct.calcsize(layout)
    if body > len(data):
        raise ValueError("ends inside its numbers")
    numbers = struct.unpack_from(layout, data, 1)
    shared, further, tags = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    if body + sum(further) + sum(tags) - sum(map(bool, tags)) != len(data):
        raise ValueError("does not have its declared size")
    return shared, further, tags, body
