"""A sorted run of entries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from lakesweep.store.index.block import Block, Entry, Stored
from lakesweep.store.index.merging import merge
from lakesweep.store.index.runs import decode_run, encode_run, run_size

_first_key = attrgetter("first")


class Leaf:
    """An immutable run. What is not asked for is not decoded."""

    __slots__ = ("_data", "blocks", "count", "size")

    def __init__(self, blocks: Sequence[Block], count: int, data: bytes | None = None) -> None:
        self.blocks = blocks
        self.count = count
        self.size = run_size(blocks) if data is None else len(data)
        self._data = data

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Leaf:
        """The run of some blocks, which follow each other."""
        return cls(blocks, sum(block.count for block in blocks))

    @classmethod
    def parse(cls, data: bytes, name: str) -> Leaf:
        """The run of some bytes, which an error calls `name`."""
        blocks = decode_run(data, name)
        return cls(blocks, blocks.entry_count, data)

    @property
    def data(self) -> bytes:
        """The run as bytes: those that it was read from, if it was."""
        if self._data is None:
            self._data = encode_run(self.blocks)
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
        places = range(self._block_of(start), self._end_of(stop))
        for place in reversed(places) if reverse else places:
            keys, values = self.blocks[place].entries
            low = bisect_left(keys, start)
            high = len(keys) if stop is None else bisect_left(keys, stop)
            pairs = zip(keys[low:high], values[low:high], strict=True)
            yield from reversed(list(pairs)) if reverse else pairs

    def merge(self, changes: Mapping[bytes, Stored], block_size: int, *, keep_marks: bool) -> Leaf:
        """The run with some entries set; removed ones stay as marks, or go.

        A run that this does not change is returned itself.
        """
        blocks = merge(self.blocks, changes, block_size, keep_marks=keep_marks)
        return self if blocks is None else Leaf.of(blocks)

    def _block_of(self, key: bytes) -> int:
        """The block where a key is or belongs."""
        return max(0, bisect_right(self.blocks, key, key=_first_key) - 1)

    def _end_of(self, stop: bytes | None) -> int:
        """The first block that holds nothing below a key."""
        if stop is None:
            return len(self.blocks)
        return bisect_left(self.blocks, stop, key=_first_key)


EMPTY = Leaf.of(())
