"""Immutable sorted runs of entries, in blocks: read, merged and encoded.

    version            1 byte, 1
    number of blocks   4 bytes, as are all numbers below, little-endian
    for each block     its size in bytes, its number of entries, its CRC-32
    CRC-32             of all of the above
    the blocks         see `block`

The checksums of the blocks are stored apart from them, so that reading one entry verifies and
decodes few blocks, and a changed run reuses the others unchanged.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import overload

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.store.index.block import REMOVED, Block, Entry, Stored, weights

_VERSION = 1
_HEAD = struct.Struct("<BI")
_CHECKSUM = struct.Struct("<I")
_WORDS = 3


def run_size(blocks: Sequence[Block]) -> int:
    """The size of a run of these blocks."""
    fixed = _HEAD.size + _CHECKSUM.size + len(blocks) * _WORDS * _CHECKSUM.size
    return fixed + sum(len(block.data) for block in blocks)


def encode_run(blocks: Sequence[Block]) -> bytes:
    """The run of some blocks, whose bytes are reused."""
    words = chain.from_iterable((len(b.data), b.count, b.checksum) for b in blocks)
    head = _HEAD.pack(_VERSION, len(blocks)) + struct.pack(f"<{_WORDS * len(blocks)}I", *words)
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(head)), *(block.data for block in blocks)))


def decode_run(data: bytes, name: str) -> LazyBlocks:
    """The blocks of a run; errors call it `name`."""
    try:
        words, start = _read_head(data, name)
    except struct.error as error:
        raise TruncatedError(name, "the index run ends too early") from error
    blocks = LazyBlocks(data, start, words, name)
    if blocks.end != len(data):
        raise DamagedError(name, f"the index run has {len(data)} bytes, not {blocks.end}")
    if not all(words[::_WORDS]) or not all(words[1::_WORDS]):
        raise DamagedError(name, "the index run has an empty block")
    return blocks


def _read_head(data: bytes, name: str) -> tuple[Sequence[int], int]:
    """The words that describe the blocks, and the offset of the first block."""
    version, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedError(name, f"the index run has version {version}, not {_VERSION}")
    layout = struct.Struct(f"<{_WORDS * count}I")
    words = layout.unpack_from(data, _HEAD.size)
    end = _HEAD.size + layout.size
    (checksum,) = _CHECKSUM.unpack_from(data, end)
    if zlib.crc32(data[:end]) != checksum:
        raise DamagedError(name, "the head of the index run does not match its checksum")
    return words, end + _CHECKSUM.size


class LazyBlocks(Sequence[Block]):
    """The blocks of some bytes, each created on first use."""

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
    def __getitem__(self, position: int) -> Block: ...
    @overload
    def __getitem__(self, position: slice) -> list[Block]: ...
    def __getitem__(self, position: int | slice) -> Block | list[Block]:
        if isinstance(position, slice):
            return [self._block(i) for i in range(*position.indices(len(self)))]
        return self._block(range(len(self))[position])

    def _block(self, i: int) -> Block:
        block = self._made.get(i)
        if block is None:
            count, checksum = self._words[_WORDS * i + 1 : _WORDS * i + 3]
            data = self._data[self._bounds[i] : self._bounds[i + 1]]
            block = self._made[i] = Block(data, count, checksum, self._name)
        return block


_first_key = attrgetter("first")


class SortedRun:
    """An immutable run. Decodes only what is used."""

    __slots__ = ("_data", "blocks", "count", "size")

    def __init__(self, blocks: Sequence[Block], count: int, data: bytes | None = None) -> None:
        self.blocks = blocks
        self.count = count
        self.size = run_size(blocks) if data is None else len(data)
        self._data = data

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> SortedRun:
        """The run of some consecutive blocks."""
        return cls(blocks, sum(block.count for block in blocks))

    @classmethod
    def parse(cls, data: bytes, name: str) -> SortedRun:
        """The run in some bytes; errors call it `name`."""
        blocks = decode_run(data, name)
        return cls(blocks, blocks.entry_count, data)

    @property
    def data(self) -> bytes:
        """The run as bytes: the original ones, if it was parsed."""
        if self._data is None:
            self._data = encode_run(self.blocks)
        return self._data

    @property
    def first(self) -> bytes:
        """The first key of a non-empty run."""
        return self.blocks[0].first

    @property
    def last(self) -> bytes:
        """The last key of a non-empty run."""
        return self.blocks[-1].entries[0][-1]

    def get(self, key: bytes) -> Stored | None:
        """What is stored for a key; None if nothing is."""
        found = self.floor(key)
        return found[1] if found and found[0] == key else None

    def floor(self, key: bytes) -> Entry | None:
        """The last entry whose key is not above this one."""
        position = bisect_right(self.blocks, key, key=_first_key) - 1
        if position < 0:
            return None
        keys, values = self.blocks[position].entries
        i = bisect_right(keys, key) - 1
        return keys[i], values[i]

    def entries(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Entry]:
        """The entries from `start` up to, but not including, `stop`; or in reverse."""
        positions = range(self._block_of(start), self._end_of(stop))
        for position in reversed(positions) if reverse else positions:
            keys, values = self.blocks[position].entries
            low = bisect_left(keys, start)
            high = len(keys) if stop is None else bisect_left(keys, stop)
            pairs = zip(keys[low:high], values[low:high], strict=True)
            yield from reversed(list(pairs)) if reverse else pairs

    def merge(
        self, changes: Mapping[bytes, Stored], block_size: int, *, keep_removed: bool
    ) -> SortedRun:
        """The run with some entries set; removed keys become tombstones, or disappear.

        If nothing changes, returns this run itself.
        """
        blocks = merge(self.blocks, changes, block_size, keep_removed=keep_removed)
        return self if blocks is None else SortedRun.of(blocks)

    def _block_of(self, key: bytes) -> int:
        """The block that a key is in, or belongs in."""
        return max(0, bisect_right(self.blocks, key, key=_first_key) - 1)

    def _end_of(self, stop: bytes | None) -> int:
        """The first block without keys below this one."""
        if stop is None:
            return len(self.blocks)
        return bisect_left(self.blocks, stop, key=_first_key)


EMPTY = SortedRun.of(())


def merge(
    blocks: Sequence[Block],
    changes: Mapping[bytes, Stored],
    block_size: int,
    *,
    keep_removed: bool,
) -> list[Block] | None:
    """The blocks with the changes applied, cut to about `block_size`; None if none differs.

    Removed keys become tombstones, or disappear.
    """
    made: list[Block] = []
    done = 0
    is_changed = False
    for start, stop, keys in _spans(blocks, sorted(changes)):
        entries = _gather(blocks[start:stop])
        if not _apply(entries, {key: changes[key] for key in keys}, keep_removed=keep_removed):
            continue
        is_changed = True
        made += blocks[done:start]
        done = stop
        if _is_small(entries, block_size):
            entries |= _gather(blocks[stop : stop + 1] or made[-1:])
            done = min(stop + 1, len(blocks))
            made = made if done > stop else made[:-1]
        made += _cut(entries, block_size)
    return [*made, *blocks[done:]] if is_changed else None


def _spans(
    blocks: Sequence[Block], keys: Sequence[bytes]
) -> Iterator[tuple[int, int, Sequence[bytes]]]:
    """Neighbouring blocks that keys are in or belong in, as ranges with their keys."""
    positions = [max(0, bisect_right(blocks, key, key=_first_key) - 1) for key in keys]
    begin = 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or positions[i] > positions[i - 1] + 1:
            yield positions[begin], positions[i - 1] + 1, keys[begin:i]
            begin = i


def _gather(blocks: Sequence[Block]) -> dict[bytes, Stored]:
    entries: dict[bytes, Stored] = {}
    for block in blocks:
        entries.update(zip(*block.entries, strict=True))
    return entries


def _apply(
    entries: dict[bytes, Stored], changes: Mapping[bytes, Stored], *, keep_removed: bool
) -> bool:
    """Apply the changes; returns whether there were any."""
    is_changed = False
    for key, value in changes.items():
        if value is REMOVED and not keep_removed:
            is_changed |= entries.pop(key, None) is not None
        elif entries.get(key) != value:
            entries[key] = value
            is_changed = True
    return is_changed


def _is_small(entries: Mapping[bytes, Stored], block_size: int) -> bool:
    return sum(weights(entries, entries.values())) < block_size // 4


def _cut(entries: Mapping[bytes, Stored], block_size: int) -> list[Block]:
    keys = sorted(entries)
    values = [entries[key] for key in keys]
    parts = cut_evenly(weights(keys, values), block_size)
    return [Block.of(keys[part], values[part]) for part in parts]


def cut_evenly(weights: Sequence[int], most: float) -> list[slice]:
    """As few parts as possible of at most `most`, all of about the same weight."""
    sums = list(accumulate(weights))
    if not sums:
        return []
    parts = max(1, -int(-sums[-1] // most))
    bounds = {bisect_left(sums, sums[-1] * i / parts) + 1 for i in range(1, parts)}
    return _slices({*bounds, len(sums)})


def cut_full(weights: Sequence[int], most: float) -> list[slice]:
    """Parts that are as full as possible, except the last."""
    bounds = {len(weights)}
    filled = 0
    for i, weight in enumerate(weights):
        if filled and filled + weight > most:
            bounds.add(i)
            filled = 0
        filled += weight
    return _slices(bounds)


def _slices(bounds: set[int]) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise(sorted({0, *bounds}))]


_MOST_BYTES = 9


def write_varint(number: int) -> bytes:
    """The bytes of a non-negative number."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it."""
    number = 0
    for i, group in enumerate(data[offset : offset + _MOST_BYTES]):
        number |= (group & 0x7F) << 7 * i
        if group < 0x80:
            return number, offset + i + 1
    raise DamagedError("index", "a number has no end")
