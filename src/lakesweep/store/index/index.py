"""The index as a value: what a commit object embeds, and what that leads to.

    version     1 byte, 1
    level       1 byte: how many levels of descriptors lie above the stripes
    pending     size, then the first key's size, the first key and the descriptor; or size 0
    root        size, then the run of the topmost descriptors
    embedded    the run of the newest entries
    CRC-32      4 bytes, of all of the above

Sizes are varints. Embedded entries count before pending ones, and those before the stripes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakesweep.errors import DamagedError
from lakesweep.store.index import varint
from lakesweep.store.index.block import Entry, Stored
from lakesweep.store.index.codec import Codec
from lakesweep.store.index.leaf import EMPTY, Leaf
from lakesweep.store.index.nodes import Nodes
from lakesweep.store.index.reading import Reading, overlay
from lakesweep.store.index.tree import Child, Tree

V = TypeVar("V")

_VERSION = 1
_HEAD_BYTES = 2
_CHECKSUM = struct.Struct("<I")
_NAME = "index"


@dataclass(frozen=True, slots=True)
class Stats:
    """The shape of an index. Entries and bytes are those of its stripes."""

    stripes: int
    entries: int
    stripe_bytes: int
    levels: int


class Index(Reading[V]):
    """An immutable ordered map. Reads load only what they touch; threads may share it."""

    __slots__ = ("embedded", "pending", "tree")

    def __init__(
        self, codec: Codec[V], tree: Tree, embedded: Leaf = EMPTY, pending: Child | None = None
    ) -> None:
        super().__init__(codec)
        self.tree = tree
        self.embedded = embedded
        self.pending = pending

    @classmethod
    def empty(cls, codec: Codec[V], nodes: Nodes) -> Index[V]:
        """An index without entries."""
        return cls(codec, Tree(nodes))

    @classmethod
    def parse(cls, data: bytes, codec: Codec[V], nodes: Nodes) -> Index[V]:
        """The index of some bytes; nothing is loaded yet."""
        end = len(data) - _CHECKSUM.size
        if end < _HEAD_BYTES or data[end:] != _CHECKSUM.pack(zlib.crc32(data[:end])):
            raise DamagedError(_NAME, "does not match its checksum")
        if data[0] != _VERSION:
            raise DamagedError(_NAME, f"is of version {data[0]}, and {_VERSION} is known here")
        if not data[1]:
            raise DamagedError(_NAME, "has no level of descriptors")
        pending, place = _read_sized(data, _HEAD_BYTES)
        root, place = _read_sized(data, place)
        tree = Tree(nodes, Leaf.parse(root, _NAME), data[1])
        return cls(codec, tree, Leaf.parse(data[place:end], _NAME), _parse_pending(pending))

    def to_bytes(self) -> bytes:
        """What a commit object embeds. An index that was not changed gives the same bytes."""
        head = bytes((_VERSION, self.tree.level))
        sized = map(_write_sized, (_write_pending(self.pending), self.tree.root.data))
        body = b"".join((head, *sized, self.embedded.data))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def stored(self, key: bytes) -> Stored | None:
        found = self.embedded.get(key)
        if found is None and self.pending and self.pending.spans(key):
            found = self.pending_run().get(key)
        return self.tree.get(key) if found is None else found

    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        entries = self.tree.entries(start, stop, reverse=reverse)
        if self.pending:
            pending = self.pending_run().entries(start, stop, reverse=reverse)
            entries = overlay(pending, entries, reverse=reverse)
        embedded = self.embedded.entries(start, stop, reverse=reverse)
        return overlay(embedded, entries, reverse=reverse)

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Load what these keys need, in one round trip for each level of descriptors."""
        self.tree.prefetch(keys, *([self.pending.id] if self.pending else []))

    def node_ids(self) -> Iterator[int]:
        """Every node that the index needs. Descriptors are loaded for this, stripes are not."""
        if self.pending:
            yield self.pending.id
        for level in self.tree.levels():
            yield from (child.id for child in level)

    def stats(self) -> Stats:
        """The shape of the index. Descriptors are loaded for this, stripes are not."""
        *_, stripes = self.tree.levels()
        entries = sum(stripe.count for stripe in stripes)
        size = sum(stripe.size for stripe in stripes)
        return Stats(len(stripes), entries, size, self.tree.level)

    def pending_run(self) -> Leaf:
        """The run that waits to go to the stripes."""
        if self.pending is None:
            return EMPTY
        (leaf,) = self.tree.nodes.fetch([self.pending.id])
        return leaf


def _write_sized(data: bytes) -> bytes:
    return varint.write(len(data)) + data


def _read_sized(data: bytes, place: int) -> tuple[bytes, int]:
    size, place = varint.read(data, place)
    if place + size > len(data):
        raise DamagedError(_NAME, "a part of it reaches beyond its end")
    return data[place : place + size], place + size


def _write_pending(pending: Child | None) -> bytes:
    return _write_sized(pending.first) + pending.encode() if pending else b""


def _parse_pending(data: bytes) -> Child | None:
    if not data:
        return None
    first, place = _read_sized(data, 0)
    return Child.decode(first, data[place:])
