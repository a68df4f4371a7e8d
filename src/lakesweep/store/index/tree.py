"""The stripes of an index under one or more levels of descriptors.

Stripes and pages of descriptors are both runs. A descriptor stands under the first key of what it
describes. The root is a run as well; it lives in the commit object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lakesweep.errors import DamagedError
from lakesweep.store.index import varint
from lakesweep.store.index.block import REMOVED, Entry, Stored, shared_sizes
from lakesweep.store.index.leaf import EMPTY, Leaf
from lakesweep.store.index.nodes import Nodes

_ID = struct.Struct("<q")
_FURTHEST_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Child:
    """What is known of a node without loading it; entries are counted in its stripes."""

    first: bytes
    last: bytes
    id: int
    count: int
    size: int

    def encode(self) -> bytes:
        """All but the first key."""
        _, shared = shared_sizes((self.first, self.last))
        numbers = map(varint.write, (self.count, self.size, shared))
        return b"".join((_ID.pack(self.id), *numbers, self.last[shared:]))

    @classmethod
    def decode(cls, first: bytes, data: Stored) -> Child:
        """A descriptor of what was stored under its first key."""
        if data is REMOVED or len(data) < _ID.size:
            raise DamagedError("index descriptor", "is too short")
        count, place = varint.read(data, _ID.size)
        size, place = varint.read(data, place)
        shared, place = varint.read(data, place)
        (id_,) = _ID.unpack_from(data)
        return cls(first, first[:shared] + data[place:], id_, count, size)

    def spans(self, key: bytes) -> bool:
        """Whether the key can be inside."""
        return self.first <= key <= self.last


def children(leaf: Leaf) -> list[Child]:
    """All descriptors of a page or a root."""
    return [Child.decode(*entry) for entry in leaf.entries()]


@dataclass(frozen=True, slots=True)
class Tree:
    """Stripes `level` levels below the root."""

    nodes: Nodes
    root: Leaf = EMPTY
    level: int = 1

    def get(self, key: bytes) -> Stored | None:
        leaf = self.root
        for _ in range(self.level):
            child = _child_of(leaf, key)
            if child is None:
                return None
            (leaf,) = self.nodes.fetch([child.id])
        return leaf.get(key)

    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        """The entries from `start` up to but without `stop`, or backwards."""
        return self._walk(self.root, self.level, start, stop, reverse=reverse)

    def prefetch(self, keys: Sequence[bytes], *more: int) -> None:
        """Load what these keys need, and some more nodes, in one round trip a level."""
        groups = [(self.root, keys)]
        for depth in range(self.level):
            wanted = _keys_of_children(groups)
            leaves = self.nodes.fetch([*wanted, *(() if depth else more)])
            groups = list(zip(leaves, wanted.values(), strict=False))

    def levels(self) -> Iterator[list[Child]]:
        """The descriptors of each level, the stripes last; stripes themselves are not loaded."""
        below = children(self.root)
        yield below
        for _ in range(self.level - 1):
            pages = self.nodes.fetch([child.id for child in below])
            below = [child for page in pages for child in children(page)]
            yield below

    def _walk(
        self, leaf: Leaf, level: int, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[Entry]:
        if not level:
            yield from leaf.entries(start, stop, reverse=reverse)
            return
        for node in self._ahead(_children_in(leaf, start, stop, reverse=reverse)):
            yield from self._walk(node, level - 1, start, stop, reverse=reverse)

    def _ahead(self, wanted: Iterable[Child]) -> Iterator[Leaf]:
        """Load nodes in batches that grow: a short look costs one, a long one few round trips."""
        rest = iter(wanted)
        size = 1
        while batch := list(islice(rest, size)):
            yield from self.nodes.fetch([child.id for child in batch])
            size = min(2 * size, _FURTHEST_AHEAD)


def _child_of(leaf: Leaf, key: bytes) -> Child | None:
    found = leaf.floor(key)
    if found is None:
        return None
    child = Child.decode(*found)
    return child if child.spans(key) else None


def _keys_of_children(groups: Iterable[tuple[Leaf, Sequence[bytes]]]) -> dict[int, list[bytes]]:
    """The ids of children that may hold some of the keys, and which."""
    wanted: dict[int, list[bytes]] = {}
    for leaf, keys in groups:
        for key in keys:
            if child := _child_of(leaf, key):
                wanted.setdefault(child.id, []).append(key)
    return wanted


def _children_in(leaf: Leaf, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Child]:
    found = leaf.floor(start)
    begin = found[0] if found else start
    for entry in leaf.entries(begin, stop, reverse=reverse):
        child = Child.decode(*entry)
        if child.last >= start:
            yield child
