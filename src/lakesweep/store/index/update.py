"""Change an index: gather changes, then make the next index of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import TypeVar

from lakesweep.store.index.block import REMOVED, Entry, Stored, weights
from lakesweep.store.index.growth import Growth, Write
from lakesweep.store.index.index import Index
from lakesweep.store.index.keys import MAX_KEY_BYTES
from lakesweep.store.index.leaf import Leaf
from lakesweep.store.index.limits import LIMITS, Limits
from lakesweep.store.index.reading import Reading, overlay

V = TypeVar("V")


class Update(Reading[V]):
    """Changes over an index, which can be read as if they were made. For one thread.

    `write` stores a node and answers its id; it is called by `finish` only, for nodes below
    before those above.
    """

    __slots__ = ("_changes", "_index", "_limits", "_order", "_write")

    def __init__(self, index: Index[V], write: Write, limits: Limits = LIMITS) -> None:
        super().__init__(index.codec)
        self._index = index
        self._write = write
        self._limits = limits
        self._changes: dict[bytes, Stored] = {}
        self._order: list[bytes] | None = None

    def put(self, key: bytes, value: V) -> None:
        """Set the value of a key. Nothing is loaded."""
        if len(key) > MAX_KEY_BYTES:
            raise ValueError(f"a key has at most {MAX_KEY_BYTES} bytes, this one {len(key)}")
        self._set(key, self.codec.encode(value))

    def remove(self, key: bytes) -> None:
        """Take a key out, if it is there. Nothing is loaded."""
        self._set(key, REMOVED)

    def finish(self) -> Index[V]:
        """The index with all changes made; the same one where none changes anything."""
        index = self._index
        if _weight(self._changes) > self._limits.pending:
            return self._spill(dict(index.embedded.entries()) | self._changes)
        embedded = self._merge(index.embedded, self._changes, keep_marks=self._has_stripes)
        if embedded is index.embedded:
            return index
        most = self._limits.buffer if self._has_stripes else self._limits.embedded
        if embedded.size <= most:
            return Index(self.codec, index.tree, embedded, index.pending)
        return self._spill(dict(embedded.entries()))

    def stored(self, key: bytes) -> Stored | None:
        found = self._changes.get(key)
        return self._index.stored(key) if found is None else found

    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        below = self._index.entries(start, stop, reverse=reverse)
        return overlay(self._changes_in(start, stop, reverse=reverse), below, reverse=reverse)

    @property
    def _has_stripes(self) -> bool:
        return self._index.tree.root.count > 0

    def _set(self, key: bytes, stored: Stored) -> None:
        if self._order is not None and key not in self._changes:
            insort(self._order, key)  # who reads between writes does not pay for a sort each time
        self._changes[key] = stored

    def _merge(self, leaf: Leaf, changes: Mapping[bytes, Stored], *, keep_marks: bool) -> Leaf:
        return leaf.merge(changes, self._limits.block, keep_marks=keep_marks)

    def _spill(self, entries: Mapping[bytes, Stored]) -> Index[V]:
        """Move all that would be embedded to the pending run, or with that to the stripes."""
        index = self._index
        growth = Growth(index.tree.nodes, self._write, self._limits)
        pending = index.pending_run()
        if self._has_stripes and pending.size + _weight(entries) <= self._limits.pending:
            run = self._merge(pending, entries, keep_marks=True)
            return Index(self.codec, index.tree, pending=growth.write_run(run))
        tree = growth.apply(index.tree, dict(pending.entries()) | dict(entries))
        return Index(self.codec, tree)

    def _changes_in(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        if self._order is None:
            self._order = sorted(self._changes)
        high = len(self._order) if stop is None else bisect_left(self._order, stop)
        chosen = self._order[bisect_left(self._order, start) : high]
        for key in reversed(chosen) if reverse else chosen:
            yield key, self._changes[key]


def _weight(entries: Mapping[bytes, Stored]) -> int:
    return sum(weights(entries, entries.values()))
