"""The bytes of a sorted run of entries, in blocks.

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
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import overload

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.store.index.block import Block

_VERSION = 1
_HEAD = struct.Struct("<BI")
_CHECKSUM = struct.Struct("<I")
_WORDS = 3


def run_size(blocks: Sequence[Block]) -> int:
    """The bytes of a run of these blocks."""
    fixed = _HEAD.size + _CHECKSUM.size + len(blocks) * _WORDS * _CHECKSUM.size
    return fixed + sum(len(block.data) for block in blocks)


def encode_run(blocks: Sequence[Block]) -> bytes:
    """The run of some blocks, whose bytes are taken over as they are."""
    words = chain.from_iterable((len(b.data), b.count, b.checksum) for b in blocks)
    head = _HEAD.pack(_VERSION, len(blocks)) + struct.pack(f"<{_WORDS * len(blocks)}I", *words)
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(head)), *(block.data for block in blocks)))


def decode_run(data: bytes, name: str) -> Unread:
    """The blocks of a run, which an error calls `name`."""
    try:
        words, start = _read_head(data, name)
    except struct.error as error:
        raise TruncatedError(name, "the index run ends too early") from error
    blocks = Unread(data, start, words, name)
    if blocks.end != len(data):
        raise DamagedError(name, f"the index run has {len(data)} bytes, not {blocks.end}")
    if not all(words[::_WORDS]) or not all(words[1::_WORDS]):
        raise DamagedError(name, "the index run has an empty block")
    return blocks


def _read_head(data: bytes, name: str) -> tuple[Sequence[int], int]:
    """The words that describe the blocks, and where the first block begins."""
    version, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedError(name, f"this is an index run of version {version}, not {_VERSION}")
    layout = struct.Struct(f"<{_WORDS * count}I")
    words = layout.unpack_from(data, _HEAD.size)
    end = _HEAD.size + layout.size
    (checksum,) = _CHECKSUM.unpack_from(data, end)
    if zlib.crc32(data[:end]) != checksum:
        raise DamagedError(name, "the head of the index run does not match its checksum")
    return words, end + _CHECKSUM.size


class Unread(Sequence[Block]):
    """The blocks of some bytes, each made when first asked for."""

    def __init__(self, data: bytes, start: int, words: Sequence[int], name: str) -> None:
        self._name = name
        self._data = data
        self._words = words
        self._bounds = list(accumulate(words[::_WORDS], initial=start))
        self._made: dict[int, Block] = {}

    @property
    def end(self) -> int:
        """Where the last block ends."""
        return self._bounds[-1]

    @property
    def entry_count(self) -> int:
        """The entries of all blocks."""
        return sum(self._words[1::_WORDS])

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, place: int) -> Block: ...
    @overload
    def __getitem__(self, place: slice) -> list[Block]: ...
    def __getitem__(self, place: int | slice) -> Block | list[Block]:
        if isinstance(place, slice):
            return [self._block(i) for i in range(*place.indices(len(self)))]
        return self._block(range(len(self))[place])

    def _block(self, i: int) -> Block:
        block = self._made.get(i)
        if block is None:
            count, checksum = self._words[_WORDS * i + 1 : _WORDS * i + 3]
            data = self._data[self._bounds[i] : self._bounds[i + 1]]
            block = self._made[i] = Block(data, count, checksum, self._name)
        return block
