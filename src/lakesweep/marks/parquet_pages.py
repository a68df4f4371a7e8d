"""How a Parquet file is divided into pages, read from its footer and page headers.

The footer says how large pages are after decompression, but nothing compares that with the pages: a
file of 1.5 kB may hold a page that claims 2 GB. So the headers are read that the decoder will read,
before it does.

The footer is read here as well. pyarrow's objects for column chunks end the whole process if a
footer contradicts itself, because nothing catches what C++ throws while it makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from lakesweep.errors import DamagedError

#: The footer's length and the magic behind it.
_TAIL_BYTES = 8
#: Fields of a Thrift struct that are read, by number: numbers (None), and structs with theirs.
_Wanted: TypeAlias = Mapping[int, "_Wanted | None"]
#: What was found of them.
_Fields: TypeAlias = dict[int, "int | _Fields"]

_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA = 4, 1, 3
_CODEC, _VALUES, _DATA_OFFSET, _DICTIONARY_OFFSET = 4, 5, 9, 11
_CHUNK: _Wanted = {
    _COLUMN_METADATA: {_CODEC: None, _VALUES: None, _DATA_OFFSET: None, _DICTIONARY_OFFSET: None}
}
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3
#: Data pages of both versions. Dictionary and index pages hold no rows.
_DATA_PAGES = (5, 8)
_NUM_VALUES = 1
_PAGE: _Wanted = {
    _UNCOMPRESSED_SIZE: None,
    _COMPRESSED_SIZE: None,
    **{page: {_NUM_VALUES: None} for page in _DATA_PAGES},
}
_CODECS = ("NONE", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_DEEPEST = 16
_OUTSIDE = "a Parquet page or footer lies outside the file"


def page_sizes(path: str, data: bytes, columns: Collection[int]) -> Iterator[int]:
    """The size of each page of these columns after decompression."""
    for column, chunk in _chunks(path, data):
        if column in columns:
            yield from _chunk_pages(path, data, chunk)


def first_codec(path: str, data: bytes) -> str | None:
    """How the first column of a file is compressed, by pyarrow's name; None without columns."""
    for _, chunk in _chunks(path, data):
        if not 0 <= (number := _number(path, chunk, _CODEC)) < len(_CODECS):
            raise DamagedError(path, f"has an unknown Parquet codec {number}")
        return _CODECS[number]
    return None


def _chunks(path: str, data: bytes) -> Iterator[tuple[int, _Fields]]:
    """The chunks of all row groups, each with the number of its column."""
    size = int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    reader = _ThriftReader(path, data, len(data) - _TAIL_BYTES - size)
    for _ in reader.each_struct(_ROW_GROUPS):
        for column, _ in enumerate(reader.each_struct(_COLUMNS)):
            chunk = reader.read_struct(_CHUNK).get(_COLUMN_METADATA)
            if not isinstance(chunk, dict):
                raise DamagedError(path, "a Parquet column has no metadata")
            yield column, chunk


def _chunk_pages(path: str, data: bytes, chunk: _Fields) -> Iterator[int]:
    """Pages up to the chunk's number of values, where the decoder stops too."""
    reader = _ThriftReader(path, data, _start(path, chunk))
    values, end = 0, _number(path, chunk, _VALUES)
    while values < end:
        header = reader.read_struct(_PAGE)
        size, stored = (
            _number(path, header, field) for field in (_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE)
        )
        if size < 0 or stored < 0:
            raise DamagedError(path, "a Parquet page has no size")
        yield size
        values += _values(header)
        reader.at += stored


def _start(path: str, chunk: _Fields) -> int:
    first, dictionary = _number(path, chunk, _DATA_OFFSET), chunk.get(_DICTIONARY_OFFSET)
    return dictionary if isinstance(dictionary, int) and 0 < dictionary < first else first


def _number(path: str, fields: _Fields, field: int) -> int:
    value = fields.get(field)
    if not isinstance(value, int):
        raise DamagedError(path, "a Parquet header lacks a number")
    return value


def _values(header: _Fields) -> int:
    pages = (header.get(number) for number in _DATA_PAGES)
    counts = (page.get(_NUM_VALUES) for page in pages if isinstance(page, dict))
    return max((count for count in counts if isinstance(count, int)), default=0)


class _Kind(IntEnum):
    """The types of Thrift's compact protocol."""

    STOP = 0
    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


_NUMBERS = (_Kind.I16, _Kind.I32, _Kind.I64)


@dataclass(slots=True)
class _ThriftReader:
    """Reads structs of Thrift's compact protocol."""

    path: str
    data: bytes
    at: int

    def read_struct(self, wanted: _Wanted) -> _Fields:
        """The wanted fields of the struct that begins here. What else is in it takes no memory.

        No writer repeats a field. Readers differ in what they make of one that is there twice.
        """
        fields: _Fields = {}
        for number, kind in self._fields():
            inner = wanted.get(number)
            if number in fields:
                raise DamagedError(self.path, "a Parquet header has a field twice")
            if inner is not None and kind == _Kind.STRUCT:
                fields[number] = self.read_struct(inner)
            elif number in wanted and kind in _NUMBERS:
                fields[number] = self._number()
            else:
                self._skip(kind, 0)
        return fields

    def each_struct(self, wanted: int) -> Iterator[None]:
        """Stop at each struct in a list of the struct that begins here; the caller reads it."""
        for number, kind in self._fields():
            if number != wanted or kind != _Kind.LIST:
                self._skip(kind, 0)
                continue
            count, inner = self._list_head()
            if count and inner != _Kind.STRUCT:
                raise DamagedError(self.path, "the Parquet footer cannot be read")
            for _ in range(count):
                yield

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field; the caller reads or skips its value."""
        number = 0
        while (head := self._byte()) != _Kind.STOP:
            step = head >> 4
            number = number + step if step else self._number()
            yield number, head & 15

    def _skip(self, kind: int, depth: int) -> None:
        match kind:
            case _Kind.TRUE | _Kind.FALSE:  # a boolean field has its value in its type
                pass
            case _Kind.BYTE:
                self._byte()
            case _Kind.I16 | _Kind.I32 | _Kind.I64:
                self._number()
            case _Kind.DOUBLE:
                self._skip_bytes(8)
            case _Kind.BINARY:
                self._skip_bytes(self._varint())
            case _:
                self._skip_group(kind, depth)

    def _skip_group(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise DamagedError(self.path, "a Parquet header is nested too deeply")
        match kind:
            case _Kind.STRUCT:
                for _, inner in self._fields():
                    self._skip(inner, depth + 1)
            case _Kind.LIST | _Kind.SET:
                count, inner = self._list_head()
                self._skip_items(count, (inner,), depth)
            case _Kind.MAP:
                if count := self._varint():
                    head = self._byte()
                    self._skip_items(count, (head >> 4, head & 15), depth)
            case _:
                raise DamagedError(self.path, "a Parquet header cannot be read")

    def _skip_items(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind in (_Kind.TRUE, _Kind.FALSE):
                    self._byte()  # in a list or map, a boolean is a byte of its own
                else:
                    self._skip(kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        """How many items a list has, and their type."""
        head = self._byte()
        return head >> 4 if head >> 4 < 15 else self._varint(), head & 15

    def _skip_bytes(self, count: int) -> None:
        # An end that is noticed at once: a list may claim any number of values.
        if self.at + count > len(self.data):
            raise DamagedError(self.path, _OUTSIDE)
        self.at += count

    def _byte(self) -> int:
        if not 0 <= self.at < len(self.data):
            raise DamagedError(self.path, _OUTSIDE)
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 127 and shift < 63:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
