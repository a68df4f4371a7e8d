"""Writes the table files of lakeFS, byte for byte as its server does.

table = write_table([(b"key", envelope(identity, data)), ...], TableType.RANGES)
(folder / table.id).write_bytes(table.data)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import cramjam
import numpy as np

from lakesweep.lakefs.ranges.blocks import SSTableHash, entry_identity
from lakesweep.lakefs.ranges.checksums import TABLES, masked_checksum
from lakesweep.lakefs.ranges.sstable import CRC32C, FOOTER_BYTES, MAGIC, VERSION, SSTableType

_SET = struct.pack("<Q", 1)
_SEPARATOR = struct.pack("<Q", 2**64 - 1 << 8 & 2**64 - 1 | 0x11)
_INVALID = struct.pack("<Q", 0xFF)

#: What every file says of itself, in the words of the library that writes them.
_CONSTANT = {
    "rocksdb.block.based.table.prefix.filtering": b"0",
    "rocksdb.block.based.table.whole.key.filtering": b"0",
    "rocksdb.column.family.id": b"\xff\xff\xff\xff\x07",
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.compression": b"Snappy",
    "rocksdb.compression_options": b"window_bits=-14; level=32767; strategy=0;"
    b" max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; ",
    "rocksdb.creation.time": b"\0",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.external_sst_file.global_seqno": b"\0" * 8,
    "rocksdb.external_sst_file.version": b"\x02\0\0\0",
    "rocksdb.filter.size": b"\0",
    "rocksdb.fixed.key.length": b"\0",
    "rocksdb.format.version": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.merge.operator": b"pebble.concatenate",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.oldest.key.time": b"\0",
    "rocksdb.prefix.extractor.name": b"nullptr",
    "rocksdb.property.collectors": b"[static]",
}


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class Written(NamedTuple):
    """A file, and the id that it has to be called by."""

    id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """How records become blocks; the defaults are those of the server."""

    block_size: int = 4096
    restart_interval: int = 16
    compress: bool = True


SERVER = Layout()


@dataclass(slots=True)
class _Block:
    restart_interval: int
    records: bytearray = field(default_factory=bytearray)
    restarts: list[int] = field(default_factory=list)
    count: int = 0
    last: bytes = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count % self.restart_interval == 0:
            self.restarts.append(len(self.records))
        else:
            most = min(len(key), len(self.last))
            while shared < most and key[shared] == self.last[shared]:
                shared += 1
        lengths = uvarint(shared) + uvarint(len(key) - shared) + uvarint(len(value))
        self.records += lengths + key[shared:] + value
        self.count += 1
        self.last = key

    @property
    def size(self) -> int:
        return len(self.records) + 4 * len(self.restarts) + 4

    def is_full(self, key_size: int, value_size: int, target: int) -> bool:
        """Whether the server would begin another block before such a record."""
        if not self.count or self.size <= (target * 90 + 99) // 100:
            return bool(self.count) and self.size >= target
        after = self.size + key_size + value_size + 4
        after += len(uvarint(key_size)) + len(uvarint(value_size))
        after += 4 if self.count % self.restart_interval == 0 else 0
        return self.size >= target or after > target

    def finish(self) -> bytes:
        restarts = self.restarts or [0]
        return bytes(self.records) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


@dataclass(slots=True)
class _File:
    compress: bool
    data: bytearray = field(default_factory=bytearray)

    def write(self, block: bytes, *, compress: bool | None = None) -> bytes:
        """Append a block; answers its handle."""
        codec = 0
        stored = block
        if self.compress if compress is None else compress:
            packed = bytes(cramjam.snappy.compress_raw(block))
            if len(packed) < len(block) - len(block) // 8:
                codec, stored = 1, packed
        handle = uvarint(len(self.data)) + uvarint(len(stored))
        self.data += sealed(stored + bytes((codec,)))
        return handle


def sealed(block: bytes) -> bytes:
    """A block and the byte of its codec, with their checksum behind them."""
    array = np.frombuffer(block, np.uint8)
    return block + struct.pack("<I", masked_checksum(array, 0, len(array), TABLES))


def _separator(key: bytes, following: bytes | None) -> bytes:
    """A short key that is not before the last of a block, and before the first of the next."""
    short = _successor(key) if following is None else _between(key, following)
    is_new = len(short) <= len(key) and key < short
    return short + _SEPARATOR if is_new else key + _SET


def _successor(key: bytes) -> bytes:
    for place, byte in enumerate(key):
        if byte != 0xFF:
            return key[:place] + bytes((byte + 1,))
    return key


def _between(key: bytes, following: bytes) -> bytes:
    most = min(len(key), len(following))
    place = next((i for i in range(most) if key[i] != following[i]), most)
    if place >= most or key[place] >= following[place]:
        return key
    if place < len(following) - 1 or key[place] + 1 < following[place]:
        return key[:place] + bytes((key[place] + 1,))
    for i in range(place + 1, len(key)):
        if key[i] != 0xFF:
            return key[:i] + bytes((key[i] + 1,))
    return key


class _Index:
    """Collects (separator, handle), and splits itself into parts when it grows."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.parts: list[_Block] = [_Block(1)]

    def add(self, separator: bytes, handle: bytes) -> None:
        if self.parts[-1].is_full(len(separator), len(handle), self.block_size):
            self.parts.append(_Block(1))
        self.parts[-1].add(separator, handle)

    def write(self, file: _File) -> tuple[bytes, Mapping[str, bytes]]:
        if len(self.parts) == 1:
            block = self.parts[0].finish()
            about = {
                "rocksdb.block.based.table.index.type": struct.pack("<I", 0),
                "rocksdb.index.size": uvarint(len(block) + 5),
            }
            return file.write(block), about
        top = _Block(1)
        for part in self.parts:
            top.add(part.last, file.write(part.finish()))
        block = top.finish()
        size = sum(part.size for part in self.parts) + len(block) + 5
        return file.write(block), {
            "rocksdb.block.based.table.index.type": struct.pack("<I", 2),
            "rocksdb.index.partitions": uvarint(len(self.parts)),
            "rocksdb.index.size": uvarint(size),
            "rocksdb.top-level.index.size": uvarint(len(block)),
        }


def write_table(
    records: Iterable[tuple[bytes, bytes]],
    kind: SSTableType,
    *,
    named: Mapping[str, bytes] | None = None,
    layout: Layout = SERVER,
    properties: Mapping[str, bytes] | None = None,
) -> Written:
    """A file of records in the order of their keys, and its id.

    `named` are properties that the id covers, apart from the type; `properties` replace others.
    """
    rows = list(records)
    file, index = _File(layout.compress), _Index(layout.block_size)
    before_close = _write_data(file, index, rows, layout)
    data_size = len(file.data)
    handle, about = index.write(file)
    covered = {"type": str(kind).encode(), **(named or {})}
    texts = {**_CONSTANT, **about, **covered, **_counts(rows, before_close)}
    texts["rocksdb.data.size"] = uvarint(data_size)
    _finish(file, handle, texts | dict(properties or {}))
    hashed = SSTableHash()
    hashed.add(_stream(rows))
    return Written(hashed.finish(covered), bytes(file.data))


def _write_data(
    file: _File, index: _Index, rows: Sequence[tuple[bytes, bytes]], layout: Layout
) -> tuple[int, int]:
    """Write the blocks; answers how many, and how large the server thought the file to be."""
    block, last, blocks = _Block(layout.restart_interval), b"", 0
    for key, value in rows:
        if block.is_full(len(key) + 8, len(value), layout.block_size):
            index.add(_separator(last, key), file.write(block.finish()))
            block, blocks = _Block(layout.restart_interval), blocks + 1
        block.add(key + _SET, value)
        last = key
    estimated = len(file.data) + block.size + index.parts[-1].size
    handle = file.write(block.finish())
    index.add(_separator(last, None) if rows else _INVALID, handle)
    return blocks + 1, estimated


def _counts(
    rows: Sequence[tuple[bytes, bytes]], before_close: tuple[int, int]
) -> Mapping[str, bytes]:
    blocks, estimated = before_close
    return {
        "count": str(len(rows)).encode(),
        "estimated_size_bytes": str(estimated).encode(),
        "min_key": rows[0][0] if rows else b"",
        "max_key": rows[-1][0] if rows else b"",
        "rocksdb.num.data.blocks": uvarint(blocks),
        "rocksdb.num.entries": uvarint(len(rows)),
        "rocksdb.raw.key.size": uvarint(sum(len(key) + 8 for key, _ in rows)),
        "rocksdb.raw.value.size": uvarint(sum(len(value) for _, value in rows)),
    }


def _finish(file: _File, index: bytes, texts: Mapping[str, bytes]) -> None:
    about = _Block(2**31)
    for name in sorted(texts, key=str.encode):
        about.add(name.encode(), texts[name])
    metaindex = _Block(1)
    metaindex.add(b"rocksdb.properties", file.write(about.finish(), compress=False))
    file.data += footer(file.write(metaindex.finish(), compress=False), index)


def footer(
    metaindex: bytes, index: bytes, *, checksum: int = CRC32C, version: int = VERSION
) -> bytes:
    """The last bytes of a file."""
    handles = bytes((checksum,)) + metaindex + index
    return handles.ljust(FOOTER_BYTES - 12, b"\0") + struct.pack("<I", version) + MAGIC


def _stream(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    parts = (part for row in rows for part in row)
    return b"".join(b"%d%b|" % (len(part), part) for part in parts)


def envelope(identity: bytes, data: bytes) -> bytes:
    """A value: both parts with their lengths, which have signs here."""
    return uvarint(2 * len(identity)) + identity + uvarint(2 * len(data)) + data


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message; nothing for what is zero or empty."""
    if not value:
        return b""
    if isinstance(value, int):
        return uvarint(number << 3) + uvarint(value & 2**64 - 1)
    return uvarint(number << 3 | 2) + uvarint(len(value)) + value


def _map(number: int, pairs: Mapping[str, str]) -> bytes:
    items = (_field(1, key.encode()) + _field(2, value.encode()) for key, value in pairs.items())
    return b"".join(_field(number, item) for item in items)


def _time(number: int, seconds: int, nanos: int) -> bytes:
    inner = _field(1, seconds) + _field(2, nanos)
    return uvarint(number << 3 | 2) + uvarint(len(inner)) + inner


@dataclass(frozen=True, slots=True)
class Entry:
    """An object of a range. `type` is 1 for relative addresses, 2 for full ones, 0 for either."""

    address: str
    seconds: int = 0
    nanos: int = 0
    size_bytes: int = 0
    checksum: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    type: int = 1
    content_type: str = ""

    def value(self) -> bytes:
        data = (
            _field(1, self.address.encode())
            + _time(2, self.seconds, self.nanos)
            + _field(3, self.size_bytes)
            + _field(4, self.checksum.encode())
            + _map(5, self.metadata)
            + _field(6, self.type)
            + _field(7, self.content_type.encode())
        )
        about = (self.size_bytes, self.checksum, self.metadata, self.content_type)
        return envelope(entry_identity(*about), data)


@dataclass(frozen=True, slots=True)
class RangeOf:
    """A range as a metarange tells of it."""

    id: str
    min_key: bytes
    max_key: bytes
    estimated_size: int
    count: int

    def value(self) -> bytes:
        data = (
            _field(1, self.min_key)
            + _field(2, self.max_key)
            + _field(3, self.estimated_size)
            + _field(4, self.count)
        )
        return envelope(self.id.encode(), data)


def commit_data(
    id_: str,
    metarange_id: str,
    seconds: int,
    parents: Sequence[str],
    *,
    nanos: int = 0,
    committer: str = "",
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    version: int = 1,
    generation: int = 1,
) -> bytes:
    """A commit of a refs dump."""
    return (
        _field(1, id_.encode())
        + _field(2, committer.encode())
        + _field(3, message.encode())
        + _time(4, seconds, nanos)
        + _field(5, metarange_id.encode())
        + _map(6, metadata or {})
        + b"".join(_field(7, parent.encode()) for parent in parents)
        + _field(8, version)
        + _field(9, generation)
    )


def ref_data(name: str, commit_id: str, *, hidden: bool = False) -> bytes:
    """A branch or a tag of a refs dump."""
    return _field(1, name.encode()) + _field(2, commit_id.encode()) + _field(5, int(hidden))
