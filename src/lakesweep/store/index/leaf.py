"""A sorted run of entries, in blocks.

    version            1 byte, 1
    number of blocks   4 bytes, as are all numbers below, the lowest first
    for each block     its size in bytes, its number of entries, its CRC-32
    CRC-32             of all of the above
    the blocks         see `block`

The checksums of the blocks stand apart, so that reading one entry checks and decodes few of them
and a changed run takes over the others as they are.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.store.index.block import Block, Entry, Stored
from lakesweep.store.index.merging import merge

_VERSION = 1
_HEAD = struct.Struct("<BI")
_CHECKSUM = struct.Struct("<I")
_WORDS_A_BLOCK = 3
_first_key = attrgetter("first")


def run_size(blocks: Sequence[Block]) -> int:
    """The bytes of a run of these blocks."""
    fixed = _HEAD.size + _CHECKSUM.size + len(blocks) * _WORDS_A_BLOCK * _CHECKSUM.size
    return fixed + sum(len(block.data) for block in blocks)


class Leaf:
    """An immutable run. What is not asked for is not decoded."""

    __slots__ = ("_data", "blocks", "count", "size")

    def __init__(self, blocks: Sequence[Block], data: bytes | None = None) -> None:
        self.blocks = blocks
        self.count = sum(block.count for block in blocks)
        self.size = run_size(blocks)
        self._data = data

    @classmethod
    def parse(cls, data: bytes, name: str) -> Leaf:
        """The run of some bytes, which an error calls `name`."""
        try:
            return cls(_parse_blocks(data), data)
        except struct.error as error:
            raise TruncatedError(name, "the index run ends too early") from error
        except DamagedError as error:
            raise DamagedError(name, error.reason) from error

    @property
    def data(self) -> bytes:
        """The run as bytes: those that it was read from, if it was."""
        if self._data is None:
            words = chain.from_iterable((len(b.data), b.count, b.checksum) for b in self.blocks)
            count = len(self.blocks)
            head = _HEAD.pack(_VERSION, count) + struct.pack(f"<{_WORDS_A_BLOCK * count}I", *words)
            checksum = _CHECKSUM.pack(zlib.crc32(head))
            self._data = b"".join((head, checksum, *(block.data for block in self.blocks)))
        return self._data

    @property
    def first(self) -> bytes:
        """The first key of a run that has one."""
        return self.blocks[0].first

    @property
    def last(self) -> bytes:
        """The last key of a run that has one."""
        return self.blocks[-1].entries[0][-1]

    def get(self, key: bytes) -> Stored | None:
        """What is stored for a key; None for nothing at all."""
        found = self.floor(key)
        return found[1] if found and found[0] == key else None

    def floor(self, key: bytes) -> Entry | None:
        """The last entry whose key is not above this one."""
        place = bisect_right(self.blocks, key, key=_first_key) - 1
        if place < 0:
            return None
        keys, values = self.blocks[place].entries
        i = bisect_right(keys, key) - 1
        return keys[i], values[i]

    def entries(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Entry]:
        """The entries from `start` up to but without `stop`, or backwards."""
        blocks = self.blocks[self._block_of(start) : self._end_of(stop)]
        for block in reversed(blocks) if reverse else blocks:
            keys, values = block.entries
            low = bisect_left(keys, start)
            high = len(keys) if stop is None else bisect_left(keys, stop)
            pairs = zip(keys[low:high], values[low:high], strict=True)
            yield from reversed(list(pairs)) if reverse else pairs

    def merge(self, changes: Mapping[bytes, Stored], block_size: int, *, keep_marks: bool) -> Leaf:
        """The run with some entries set; removed ones stay as marks, or go.

        A run that this does not change is returned itself.
        """
        blocks = merge(self.blocks, changes, block_size, keep_marks=keep_marks)
        return self if blocks is None else Leaf(blocks)

    def _block_of(self, key: bytes) -> int:
        """The block where a key is or belongs."""
        return max(0, bisect_right(self.blocks, key, key=_first_key) - 1)

    def _end_of(self, stop: bytes | None) -> int:
        """The first block that holds nothing below a key."""
        if stop is None:
            return len(self.blocks)
        return bisect_left(self.blocks, stop, key=_first_key)


def _parse_blocks(data: bytes) -> list[Block]:
    version, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedError("", f"this is no index run of version {_VERSION}, but of {version}")
    layout = f"<{_WORDS_A_BLOCK * count}I"
    head_size = _HEAD.size + struct.calcsize(layout)
    (checksum,) = _CHECKSUM.unpack_from(data, head_size)
    if zlib.crc32(data[:head_size]) != checksum:
        raise DamagedError("", "the head of the index run does not match its checksum")
    words = struct.unpack_from(layout, data, _HEAD.size)
    sizes, counts, checksums = words[::3], words[1::3], words[2::3]
    bounds = list(accumulate(sizes, initial=head_size + _CHECKSUM.size))
    if bounds[-1] != len(data):
        raise DamagedError("", f"the index run has {len(data)} bytes instead of {bounds[-1]}")
    if not all(sizes) or not all(counts):
        raise DamagedError("", "the index run has an empty block")
    pieces = (data[start:stop] for start, stop in pairwise(bounds))
    return [Block(*block) for block in zip(pieces, counts, checksums, strict=True)]


EMPTY = Leaf(())
