"""The index as a value: reading it, its value codecs, and the bytes that a commit object embeds.

    version     1 byte, 1
    level       1 byte: the number of levels of descriptors above the stripes
    pending     size, then the first key's size, the first key and the descriptor; or size 0
    root        size, then the run of the topmost descriptors
    embedded    the run of the newest entries
    CRC-32      4 bytes, of all of the above

Sizes are varints. Embedded entries override pending ones, and those override the stripes.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import gt, lt
from typing import Generic, Protocol, TypeVar

import msgspec

from lakesweep.decoding import msgpack_decoder
from lakesweep.errors import DamagedError
from lakesweep.store.index import sorted_run
from lakesweep.store.index.block import REMOVED, Entry, Stored
from lakesweep.store.index.keys import component_end, prefix_end
from lakesweep.store.index.sorted_run import EMPTY, SortedRun
from lakesweep.store.index.tree import Child, NodeCache, Tree
from lakesweep.store.objects.links import Link, ValueKind, pack, unpack

V = TypeVar("V")
_VERSION = 1
_HEAD_BYTES = 2
_CHECKSUM = struct.Struct("<I")
_NAME = "index"


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The shape of an index. Entries and bytes are those of its stripes."""

    stripes: int
    entries: int
    stripe_bytes: int
    levels: int


class ReadableIndex(ABC, Generic[V]):
    """A readable ordered map. Ranges are half open and may be read in reverse."""

    __slots__ = ("codec",)

    def __init__(self, codec: Codec[V]) -> None:
        self.codec = codec

    @abstractmethod
    def stored(self, key: bytes) -> Stored | None:
        """What the topmost layer with the key has for it."""

    @abstractmethod
    def entries(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Entry]:
        """All layers combined, including tombstones."""

    def get(self, key: bytes) -> V | None:
        """The value of a key; None if it has none."""
        stored = self.stored(key)
        return self.codec.decode(stored) if isinstance(stored, bytes) else None

    def __contains__(self, key: bytes) -> bool:
        return isinstance(self.stored(key), bytes)

    def items(
        self, start: bytes = b"", stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """The entries from `start` up to, but not including, `stop`; or in reverse."""
        decode = self.codec.decode
        for key, stored in self.entries(start, stop, reverse=reverse):
            if stored is not REMOVED:
                yield key, decode(stored)

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, V]]:
        """The entries whose keys start with a prefix; or in reverse."""
        return self.items(prefix, prefix_end(prefix), reverse=reverse)

    def heads(self, prefix: bytes = b"") -> Iterator[bytes]:
        """The distinct keys one component longer than the prefix that some key starts with.

        Jumps from one to the next: what is below them is neither loaded nor decoded. The keys under
        the prefix, and the prefix itself, must be encoded tuples.
        """
        start: bytes | None = prefix
        stop = prefix_end(prefix)
        while start is not None and (key := self._first_from(start, stop)) is not None:
            if key == prefix:
                start = prefix + b"\x00"
                continue
            head = key[: component_end(key, len(prefix))]
            yield head
            start = prefix_end(head)

    def _first_from(self, start: bytes, stop: bytes | None) -> bytes | None:
        for key, stored in self.entries(start, stop, reverse=False):
            if stored is not REMOVED:
                return key
        return None


class Index(ReadableIndex[V]):
    """An immutable ordered map. Reads load only what they touch. Threads may share it."""

    __slots__ = ("embedded", "pending", "tree")

    def __init__(
        self, codec: Codec[V], tree: Tree, embedded: SortedRun = EMPTY, pending: Child | None = None
    ) -> None:
        super().__init__(codec)
        self.tree = tree
        self.embedded = embedded
        self.pending = pending

    @classmethod
    def empty(cls, codec: Codec[V], nodes: NodeCache) -> Index[V]:
        """An index without entries."""
        return cls(codec, Tree(nodes))

    @classmethod
    def parse(cls, data: bytes, codec: Codec[V], nodes: NodeCache) -> Index[V]:
        """The index in some bytes; nothing is loaded yet."""
        end = len(data) - _CHECKSUM.size
        if end < _HEAD_BYTES or data[end:] != _CHECKSUM.pack(zlib.crc32(data[:end])):
            raise DamagedError(_NAME, "does not match its checksum")
        if data[0] != _VERSION:
            raise DamagedError(_NAME, f"has version {data[0]}; this program understands {_VERSION}")
        if not data[1]:
            raise DamagedError(_NAME, "has no level of descriptors")
        pending, offset = _read_sized(data, _HEAD_BYTES)
        root, offset = _read_sized(data, offset)
        tree = Tree(nodes, SortedRun.parse(root, _NAME), data[1])
        return cls(codec, tree, SortedRun.parse(data[offset:end], _NAME), _parse_pending(pending))

    def to_bytes(self) -> bytes:
        """The bytes that a commit object embeds. An unchanged index gives the same bytes."""
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
        """Load what these keys need, in one round trip per level of descriptors."""
        self.tree.prefetch(keys, *([self.pending.id] if self.pending else []))

    def node_ids(self) -> Iterator[int]:
        """The ids of all nodes of the index. Loads descriptors, but no stripes."""
        if self.pending:
            yield self.pending.id
        for level in self.tree.levels():
            yield from (child.id for child in level)

    def stats(self) -> IndexStats:
        """The shape of the index. Loads descriptors, but no stripes."""
        *_, stripes = self.tree.levels()
        entries = sum(stripe.count for stripe in stripes)
        size = sum(stripe.size for stripe in stripes)
        return IndexStats(len(stripes), entries, size, self.tree.level)

    def pending_run(self) -> SortedRun:
        """The pending run, which later moves to the stripes."""
        if self.pending is None:
            return EMPTY
        (leaf,) = self.tree.nodes.fetch([self.pending.id])
        return leaf


def _write_sized(data: bytes) -> bytes:
    return sorted_run.write_varint(len(data)) + data


def _read_sized(data: bytes, offset: int) -> tuple[bytes, int]:
    size, offset = sorted_run.read_varint(data, offset)
    if offset + size > len(data):
        raise DamagedError(_NAME, "a part extends beyond its end")
    return data[offset : offset + size], offset + size


def _write_pending(pending: Child | None) -> bytes:
    return _write_sized(pending.first) + pending.encode() if pending else b""


def _parse_pending(data: bytes) -> Child | None:
    if not data:
        return None
    first, offset = _read_sized(data, 0)
    return Child.decode(first, data[offset:])


def overlay(upper: Iterator[Entry], lower: Iterator[Entry], *, reverse: bool) -> Iterator[Entry]:
    """Two layers combined; if both have a key, the upper one counts."""
    precedes = gt if reverse else lt
    above = next(upper, None)
    if above is None:
        yield from lower
        return
    for entry in lower:
        while above is not None and precedes(above[0], entry[0]):
            yield above
            above = next(upper, None)
        if above is not None and above[0] == entry[0]:
            yield above
            above = next(upper, None)
        else:
            yield entry
    if above is not None:
        yield above
        yield from upper


class Codec(Protocol[V]):
    """Converts values to bytes and back.

    Equal values give equal bytes. Every byte string is a valid value, even the empty one: the index
    itself records removed keys, beside the values. `values` says how links are found in these
    bytes.
    """

    values: ValueKind

    def encode(self, value: V, /) -> bytes: ...

    def decode(self, data: bytes, /) -> V:
        """The value of these bytes; DamagedError if they are not valid."""
        ...


class _Bytes:
    values = ValueKind.OPAQUE

    def encode(self, value: bytes, /) -> bytes:
        return value

    def decode(self, data: bytes, /) -> bytes:
        return data


class _Links:
    values = ValueKind.LINKS

    def encode(self, value: int, /) -> bytes:
        return value.to_bytes(8, "big")

    def decode(self, data: bytes, /) -> Link:
        if len(data) != 8:
            raise DamagedError("index value", f"an id has 8 bytes, not {len(data)}")
        return Link(int.from_bytes(data, "big"))


class Packed(Generic[V]):
    """Values of one type as msgpack."""

    values = ValueKind.PACKED

    def __init__(self, type_: type[V]) -> None:
        self._encoder = msgspec.msgpack.Encoder(order="deterministic", enc_hook=pack)
        self._decoder = msgpack_decoder(type_, ext_hook=unpack)

    def encode(self, value: V, /) -> bytes:
        return self._encoder.encode(value)

    def decode(self, data: bytes, /) -> V:
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise DamagedError("index value", str(error)) from error


#: Byte strings, unchanged.
BYTES: Codec[bytes] = _Bytes()
#: Ids of objects, which the index keeps alive.
LINKS: Codec[Link] = _Links()
