"""The stripes of an index under one or more levels of descriptors.

Stripes and pages of descriptors are both sorted runs. A descriptor is stored under the first key
of the node it describes. The root is a run as well, embedded in the commit object. Nodes are
loaded in batches and cached.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from lakesweep.errors import DamagedError
from lakesweep.store.index import sorted_run
from lakesweep.store.index.block import REMOVED, Entry, Stored, shared_sizes
from lakesweep.store.index.sorted_run import EMPTY, SortedRun

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
        """Everything except the first key."""
        _, shared = shared_sizes((self.first, self.last))
        numbers = map(sorted_run.write_varint, (self.count, self.size, shared))
        return b"".join((_ID.pack(self.id), *numbers, self.last[shared:]))

    @classmethod
    def decode(cls, first: bytes, data: Stored) -> Child:
        """A descriptor, from what is stored under its first key."""
        if data is REMOVED or len(data) < _ID.size:
            raise DamagedError("index descriptor", "is too short")
        count, offset = sorted_run.read_varint(data, _ID.size)
        size, offset = sorted_run.read_varint(data, offset)
        shared, offset = sorted_run.read_varint(data, offset)
        (id_,) = _ID.unpack_from(data)
        return cls(first, first[:shared] + data[offset:], id_, count, size)

    def spans(self, key: bytes) -> bool:
        """Whether the key can be inside."""
        return self.first <= key <= self.last


def children(leaf: SortedRun) -> list[Child]:
    """All descriptors of a page or a root."""
    return [Child.decode(*entry) for entry in leaf.entries()]


@dataclass(frozen=True, slots=True)
class Tree:
    """Stripes `level` levels below the root."""

    nodes: NodeCache
    root: SortedRun = EMPTY
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
        """The entries from `start` up to, but not including, `stop`; or in reverse."""
        return self._walk(self.root, self.level, start, stop, reverse=reverse)

    def prefetch(self, keys: Sequence[bytes], *more: int) -> None:
        """Load what these keys need, and some more nodes, in one round trip per level."""
        groups = [(self.root, keys)]
        for depth in range(self.level):
            wanted = _keys_of_children(groups)
            leaves = self.nodes.fetch([*wanted, *(() if depth else more)])
            groups = list(zip(leaves, wanted.values(), strict=False))

    def levels(self) -> Iterator[list[Child]]:
        """The descriptors of each level, stripes last; the stripes themselves are not loaded."""
        below = children(self.root)
        yield below
        for _ in range(self.level - 1):
            pages = self.nodes.fetch([child.id for child in below])
            below = [child for page in pages for child in children(page)]
            yield below

    def _walk(
        self, leaf: SortedRun, level: int, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[Entry]:
        if not level:
            yield from leaf.entries(start, stop, reverse=reverse)
            return
        for node in self._ahead(_children_in(leaf, start, stop, reverse=reverse)):
            yield from self._walk(node, level - 1, start, stop, reverse=reverse)

    def _ahead(self, wanted: Iterable[Child]) -> Iterator[SortedRun]:
        """Load nodes in growing batches: a short read needs few, a long one few round trips."""
        rest = iter(wanted)
        size = 1
        while batch := list(islice(rest, size)):
            yield from self.nodes.fetch([child.id for child in batch])
            size = min(2 * size, _FURTHEST_AHEAD)


def _child_of(leaf: SortedRun, key: bytes) -> Child | None:
    found = leaf.floor(key)
    if found is None:
        return None
    child = Child.decode(*found)
    return child if child.spans(key) else None


def _keys_of_children(
    groups: Iterable[tuple[SortedRun, Sequence[bytes]]],
) -> dict[int, list[bytes]]:
    """The ids of children that may contain some of the keys, with those keys."""
    wanted: dict[int, list[bytes]] = {}
    for leaf, keys in groups:
        for key in keys:
            if child := _child_of(leaf, key):
                wanted.setdefault(child.id, []).append(key)
    return wanted


def _children_in(
    leaf: SortedRun, start: bytes, stop: bytes | None, *, reverse: bool
) -> Iterator[Child]:
    found = leaf.floor(start)
    begin = found[0] if found else start
    for entry in leaf.entries(begin, stop, reverse=reverse):
        child = Child.decode(*entry)
        if child.last >= start:
            yield child


#: Loads nodes in one round trip. Returns the bytes of each id in order, and raises if one is
#: missing.
Load: TypeAlias = Callable[[Sequence[int]], Sequence[bytes]]

_KEPT_BYTES = 16 * 2**20


class NodeCache:
    """Nodes by id. They never change, so all versions of an index may share them."""

    def __init__(self, load: Load, kept_bytes: int = _KEPT_BYTES) -> None:
        self._load = load
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[int, SortedRun] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def fetch(self, ids: Sequence[int]) -> list[SortedRun]:
        """Some nodes, in order; those not cached are loaded in one round trip."""
        found = self._find(ids)
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in found]
        if missing:
            for id_, data in zip(missing, self._load(missing), strict=True):
                found[id_] = SortedRun.parse(data, f"index node {id_}")
                self.keep(id_, found[id_])
        return [found[id_] for id_ in ids]

    def keep(self, id_: int, leaf: SortedRun) -> None:
        """Cache a node, and evict the least recently used ones."""
        with self._lock:
            if id_ not in self._kept:
                self._size += leaf.size
            self._kept[id_] = leaf
            while self._size > self._kept_bytes:
                self._size -= self._kept.popitem(last=False)[1].size

    def _find(self, ids: Iterable[int]) -> dict[int, SortedRun]:
        found = {}
        with self._lock:
            for id_ in ids:
                if id_ in self._kept:
                    self._kept.move_to_end(id_)
                    found[id_] = self._kept[id_]
        return found
