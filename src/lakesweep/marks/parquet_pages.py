"""How much the pages of a Parquet file may inflate to, read from their headers.

The footer has sizes too, but nothing compares them with the pages: a file of 1.5 kB may hold a
page that claims 2 GB. So the headers are read that the decoder will read, before it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import pyarrow.parquet as pq

from lakesweep.errors import DamagedError

#: The fields of a Thrift struct by number: numbers and structs; other values are skipped.
_Fields: TypeAlias = dict[int, "int | _Fields"]

_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3
#: Data pages of both versions. Dictionary and index pages hold no rows.
_DATA_PAGES = (5, 8)
_NUM_VALUES = 1

_DEEPEST = 16


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


def page_sizes(
    path: str, data: bytes, metadata: pq.FileMetaData, columns: Collection[str]
) -> Iterator[int]:
    """The size of each page of these columns after decompression."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema in columns:
                yield from _chunk_pages(path, data, chunk)


def _chunk_pages(path: str, data: bytes, chunk: pq.ColumnChunkMetaData) -> Iterator[int]:
    """Pages up to the chunk's number of values, where the decoder stops too."""
    reader = _ThriftReader(path, data, _start(chunk))
    values = 0
    while values < chunk.num_values:
        header = reader.read_struct()
        size, stored = header.get(_UNCOMPRESSED_SIZE), header.get(_COMPRESSED_SIZE)
        if not isinstance(size, int) or not isinstance(stored, int) or size < 0 or stored < 0:
            raise DamagedError(path, "a Parquet page has no size")
        yield size
        values += _values(header)
        reader.at += stored


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    first: int = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < first:
        first = chunk.dictionary_page_offset
    return first


def _values(header: _Fields) -> int:
    pages = (header.get(number) for number in _DATA_PAGES)
    counts = (page.get(_NUM_VALUES) for page in pages if isinstance(page, dict))
    return max((count for count in counts if isinstance(count, int)), default=0)


@dataclass(slots=True)
class _ThriftReader:
    """Reads structs of Thrift's compact protocol."""

    path: str
    data: bytes
    at: int

    def read_struct(self, depth: int = 0) -> _Fields:
        if depth > _DEEPEST:
            raise DamagedError(self.path, "a Parquet page header is nested too deeply")
        fields: _Fields = {}
        number = 0
        while (head := self._byte()) != _Kind.STOP:
            step = head >> 4
            number = number + step if step else self._number()
            value = self._value(head & 15, depth)
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> int | _Fields | None:
        match kind:
            case _Kind.TRUE | _Kind.FALSE:  # a boolean field has its value in its type
                return None
            case _Kind.BYTE:
                return self._byte()
            case _Kind.I16 | _Kind.I32 | _Kind.I64:
                return self._number()
            case _Kind.STRUCT:
                return self.read_struct(depth + 1)
        self._skip(kind, depth)
        return None

    def _skip(self, kind: int, depth: int) -> None:
        match kind:
            case _Kind.DOUBLE:
                self.at += 8
            case _Kind.BINARY:
                size = self._varint()  # reading it moves on, too
                self.at += size
            case _Kind.LIST | _Kind.SET:
                head = self._byte()
                count = head >> 4 if head >> 4 < 15 else self._varint()
                self._skip_items(count, (head & 15,), depth)
            case _Kind.MAP:
                if count := self._varint():
                    head = self._byte()
                    self._skip_items(count, (head >> 4, head & 15), depth)
            case _:
                raise DamagedError(self.path, "a Parquet page header cannot be read")

    def _skip_items(self, count: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind in (_Kind.TRUE, _Kind.FALSE):
                    self._byte()  # in a list or map, a boolean is a byte of its own
                else:
                    self._value(kind, depth + 1)

    def _byte(self) -> int:
        if not 0 <= self.at < len(self.data):
            raise DamagedError(self.path, "a Parquet page lies outside the file")
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
