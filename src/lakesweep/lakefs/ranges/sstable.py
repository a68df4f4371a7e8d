"""SSTable files: sorted records in blocks, as lakeFS stores ranges, metaranges and dumped refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import DamagedError, FormatError, TruncatedError
from lakesweep.lakefs.ranges import error_codes
from lakesweep.lakefs.ranges.blocks import (
    LARGEST_BYTES,
    Bytes,
    Numbers,
    SSTableHash,
    check_blocks,
    inflate,
    raise_for_code,
    read_blocks,
    read_small_block,
    uvarint,
)


@dataclass(frozen=True, slots=True)
class SSTable:
    """The records of one file, in the order of their keys. Parts are bounds in `raw`, one a row."""

    path: str
    properties: SSTableProperties
    keys: pa.Array
    raw: Bytes
    identities: Numbers
    data: Numbers

    def gather(self, parts: Numbers, kind: pa.DataType) -> pa.Array:
        """Parts of the records as a column; DamagedError for text that is none."""
        from lakesweep.lakefs.ranges.value_kernels import gather

        sizes = int((parts[:, 1] - parts[:, 0]).sum())
        heap, ends = np.empty(sizes, np.uint8), np.zeros(len(parts) + 1, np.int32)
        gather(self.raw, parts, heap, ends)
        return byte_strings(self.path, kind, heap, ends)


@dataclass(frozen=True, slots=True)
class OpenSSTable:
    """A file with verified blocks: where each is stored, and where it is once inflated."""

    path: str
    data: bytes
    properties: SSTableProperties
    handles: Numbers
    bounds: Numbers


def open_sstable(path: str, data: bytes, kind: SSTableType) -> OpenSSTable:
    """Verify the frame of a file.

    FormatError, or a subclass, for a file that is damaged or is not such a table.
    """
    footer = read_footer(path, data)
    properties = _read_properties(path, data, footer)
    if properties.type is not kind:
        raise FormatError(path, f"it holds {properties.type}, not {kind}")
    handles = _data_handles(path, data, footer, properties)
    bounds = check_blocks(path, data, handles)
    _refuse_lies(path, properties, int(bounds[-1]))
    return OpenSSTable(path, data, properties, handles, bounds)


def _refuse_lies(path: str, told: SSTableProperties, raw_bytes: int) -> None:
    """Memory is allocated for what a file declares, so that must fit into its blocks.

    Only keys may be longer than what is stored of them.
    """
    room = told.key_bytes + told.value_bytes
    if room > LARGEST_BYTES or max(told.records, told.value_bytes) > raw_bytes:
        raise DamagedError(path, error_codes.REASONS[error_codes.TOO_LARGE])


def read_sstable(path: str, data: bytes, kind: SSTableType, id_: str | None = None) -> SSTable:
    """Read a whole file and verify everything; with `id_`, its id too."""
    from lakesweep.lakefs.ranges.value_kernels import open_envelopes

    opened = open_sstable(path, data, kind)
    walk = RecordWalk(opened, id_)
    [(raw, values)] = walk.groups(most_bytes=LARGEST_BYTES)
    identities, parts = np.empty((2, len(values), 2), np.int64)
    raise_for_code(path, open_envelopes(raw, values, identities, parts))
    return SSTable(path, opened.properties, walk.keys(), raw, identities, parts)


def _read_properties(path: str, data: bytes, footer: SSTableFooter) -> SSTableProperties:
    named = read_small_block(path, data, footer.metaindex)
    if b"rocksdb.range_del" in named:
        raise FormatError(path, "it has deletions of ranges, which lakeFS does not write")
    try:
        value = named[b"rocksdb.properties"]
        start, at = uvarint(value, 0)
        size, _ = uvarint(value, at)
    except (KeyError, IndexError, ValueError):
        raise DamagedError(path, "it does not say where its properties are") from None
    if max(start, size) > len(data):
        raise DamagedError(path, "its properties lie beyond its end")
    return read_properties(path, read_small_block(path, data, (start, size)))


def _data_handles(
    path: str, data: bytes, footer: SSTableFooter, properties: SSTableProperties
) -> Numbers:
    """Where the blocks of records are, from an index of one or two levels."""
    handles = _index_handles(path, data, np.array([footer.index], np.int64))
    if properties.two_level:
        handles = _index_handles(path, data, handles)
    if len(handles) != properties.data_blocks:
        blocks = properties.data_blocks
        raise DamagedError(path, f"its index has {len(handles)} blocks, but it says {blocks}")
    return handles


def _index_handles(path: str, data: bytes, handles: Numbers) -> Numbers:
    from lakesweep.lakefs.ranges.record_kernels import FEWEST_BYTES, read_index

    blocks = read_blocks(path, data, handles)
    found = np.empty((len(blocks.raw) // FEWEST_BYTES, 2), np.int64)
    count = read_index(blocks.raw, blocks.bounds, found)
    raise_for_code(path, count)
    return found[:count].copy()


class RecordWalk:
    """Decodes a table some blocks at a time, which fit into the cache of a core.

    With an id, the contents are verified against it at the end.
    """

    def __init__(self, opened: OpenSSTable, id_: str | None) -> None:
        self._opened = opened
        self._id = id_
        told = opened.properties
        self._keys = np.empty(told.key_bytes, np.uint8)
        self._key_ends = np.zeros(told.records + 1, np.int32)
        self._done = np.array([0, 0, 0, 0, told.value_bytes])

    def groups(self, most_bytes: int) -> Iterator[tuple[Bytes, Numbers]]:
        """Inflated blocks, a limited number of bytes at a time, and where their values are.

        The next group reuses the memory. DamagedError, at the latest at the end, for any mismatch.
        """
        from lakesweep.lakefs.ranges.record_kernels import FEWEST_BYTES, FRAME_BYTES, unpack

        opened, told = self._opened, self._opened.properties
        path, bounds, hashed = opened.path, opened.bounds, SSTableHash()
        cuts = _cuts(bounds, most_bytes)
        largest = max(int(bounds[last] - bounds[first]) for first, last in cuts)
        raw, values = np.empty(largest, np.uint8), np.empty((largest // FEWEST_BYTES, 2), np.int64)
        frames = FRAME_BYTES * told.records
        stream = np.empty(told.key_bytes + told.value_bytes + frames if self._id else 0, np.uint8)
        for first, last in cuts:
            here = bounds[first : last + 1] - bounds[first]
            inflate(path, opened.data, opened.handles[first:last], here, raw)
            before = self._done[0]
            raise_for_code(
                path, unpack(raw, here, self._keys, self._key_ends, values, stream, self._done)
            )
            hashed.add(stream[: self._done[3]].data)
            yield raw, values[: self._done[0] - before]
        self._finish(hashed)

    def _finish(self, hashed: SSTableHash) -> None:
        path, told, found = self._opened.path, self._opened.properties, self._done[:3].tolist()
        if found != [told.records, told.key_bytes, told.value_bytes]:
            raise DamagedError(path, f"it has {found[0]} records, but says {told.records}")
        if self._id is not None and (own := hashed.finish(told.named)) != self._id:
            raise DamagedError(path, f"what it holds has the id {own}, not {self._id}")

    def keys(self) -> pa.Array:
        """All keys, once all groups were taken."""
        return byte_strings(self._opened.path, pa.binary(), self._keys, self._key_ends)


def _cuts(bounds: Numbers, most_bytes: int) -> list[tuple[int, int]]:
    """Which blocks to take together: at least one, and more while they are small."""
    cuts: list[tuple[int, int]] = []
    first, blocks = 0, len(bounds) - 1
    while first < blocks or not cuts:
        last = int(np.searchsorted(bounds, bounds[first] + most_bytes, "right")) - 1
        last = min(max(last, first + 1), blocks)
        cuts.append((first, last))
        first = last
    return cuts


def byte_strings(
    path: str, kind: pa.DataType, heap: Bytes, ends: npt.NDArray[np.int32]
) -> pa.Array:
    """A column of bytes or text stored in `heap`."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(heap)]
    column = pa.Array.from_buffers(kind, len(ends) - 1, buffers)
    if kind == pa.string():
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise DamagedError(path, "a text in it is not UTF-8") from None
    return column


_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_SINGLE, _TWO_LEVEL = 0, 2


class SSTableType(StrEnum):
    """Whether the records of a file are objects, or ranges of them."""

    RANGES = "ranges"
    METARANGES = "metaranges"


#: What is hashed into an id: what was known of a table before its first record.
_HASHED = ("type", "entity", "schema_name", "schema_definition")


@dataclass(frozen=True, slots=True)
class SSTableProperties:
    """The properties that are used. `min_key` and `max_key` are not: some were wrong.

    `named` are those that the id covers.
    """

    type: SSTableType
    entity: str
    named: Mapping[str, bytes]
    two_level: bool
    records: int
    data_blocks: int
    key_bytes: int
    value_bytes: int


def read_properties(path: str, found: Mapping[bytes, bytes]) -> SSTableProperties:
    """Decode the records of the properties block."""
    try:
        index_type = int.from_bytes(found[_INDEX_TYPE], "little")
        named = {name: found[name.encode()] for name in _HASHED if name.encode() in found}
        properties = SSTableProperties(
            type=SSTableType(named["type"].decode()),
            entity=named.get("entity", b"").decode(),
            named=named,
            two_level=index_type == _TWO_LEVEL,
            records=_number(found, "num.entries"),
            data_blocks=_number(found, "num.data.blocks"),
            key_bytes=_number(found, "raw.key.size"),
            value_bytes=_number(found, "raw.value.size"),
        )
        count = int(found[b"count"])
    except (KeyError, ValueError, IndexError) as error:
        raise DamagedError(path, f"its properties cannot be read: {error!r}") from None
    if index_type not in {_SINGLE, _TWO_LEVEL}:
        raise FormatError(path, f"its index is of type {index_type}, which lakeFS does not write")
    if count != properties.records:
        raise DamagedError(path, f"it says to have {count} and {properties.records} records")
    return properties


def _number(found: Mapping[bytes, bytes], name: str) -> int:
    return uvarint(found[f"rocksdb.{name}".encode()], 0)[0]


FOOTER_BYTES = 53
MAGIC = bytes.fromhex("f7cff485b741e288")
#: The only checksum, and the only version, that lakeFS ever wrote.
CRC32C = 1
VERSION = 2

_CHECKSUMS = {0: "no checksum", 2: "xxHash", 3: "xxHash64", 4: "XXH3"}
_OTHERS = {
    bytes.fromhex("57fb808b247547db"): "LevelDB",
    bytes.fromhex("f09faab3f09faab3"): "Pebble",
}
_HINT = "lakeFS does not write such files: compare it with a copy, or with what the server reads"


@dataclass(frozen=True, slots=True)
class SSTableFooter:
    """Where the metaindex and the index are: (first byte, length) each."""

    metaindex: tuple[int, int]
    index: tuple[int, int]


def read_footer(path: str, data: bytes) -> SSTableFooter:
    """Parse the footer; FormatError for formats that are not lakeFS'."""
    if not data:
        raise TruncatedError(path, "it is empty")
    if data[-8:] != MAGIC:
        other = _OTHERS.get(data[-8:])
        if other is not None:
            raise FormatError(
                path, f"it is a table of {other}, which has another format", hint=_HINT
            )
        raise DamagedError(path, "it does not end as a table file does")
    if len(data) < FOOTER_BYTES:
        raise TruncatedError(path, "it is shorter than its own footer")
    return _parse(path, data[-FOOTER_BYTES:])


def _parse(path: str, footer: bytes) -> SSTableFooter:
    version = int.from_bytes(footer[41:45], "little")
    if version != VERSION:
        raise FormatError(path, f"its format has version {version}, not {VERSION}", hint=_HINT)
    if footer[0] != CRC32C:
        name = _CHECKSUMS.get(footer[0], f"checksum {footer[0]}")
        raise FormatError(path, f"it has {name} instead of CRC32C", hint=_HINT)
    numbers, at = [], 1
    try:
        for _ in range(4):
            number, at = uvarint(footer, at)
            numbers.append(number)
    except (IndexError, ValueError):
        numbers.append(2**62)
    if at > 41 or any(footer[at:41]) or max(numbers) >= 2**62:
        raise DamagedError(path, "its footer cannot be read")
    return SSTableFooter((numbers[0], numbers[1]), (numbers[2], numbers[3]))
