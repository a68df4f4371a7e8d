"""Read columns of Parquet and ORC manifests that are in memory.

Both formats can repeat one long value millions of times in a few bytes. So Parquet is decoded in
batches that stay small even if every row has the longest value that a page can hold, and all that
was decoded counts against `inflated_bytes`.

How much pages may inflate to is read from their headers. The footer has sizes too, but nothing
compares them with the pages: a file of 1.5 kB may hold a page that claims 2 GB. So the headers are
read that the decoder will read, before it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.errors import DamagedError, LakesweepError, LimitError, TruncatedError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, read_failure

_PARQUET_MAGIC = b"PAR1"
_MOST_ROWS = 1 << 16
_BATCH_BYTES = 1 << 28
#: An ORC stripe is decoded whole, and a row takes at least this much in a batch.
_LEAST_ROW_BYTES = 8
#: The names on the path to a leaf; None if a file does not have it.
FieldPath = tuple[str, ...] | None
#: The fields of a Thrift struct by number: numbers and structs; other values are skipped.
_Fields: TypeAlias = dict[int, "int | _Fields"]
_UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 2, 3
#: Data pages of both versions. Dictionary and index pages hold no rows.
_DATA_PAGES = (5, 8)
_NUM_VALUES = 1
_DEEPEST = 16


@contextmanager
def open_parquet(path: str, data: bytes) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; any problem while it is open is an error that names it."""
    if len(data) <= 2 * len(_PARQUET_MAGIC) or not data.endswith(_PARQUET_MAGIC):
        raise TruncatedError(path, "its Parquet footer is missing")
    with _decoding(path, "Parquet"):
        yield pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


@contextmanager
def open_orc(path: str, data: bytes) -> Iterator[orc.ORCFile]:
    """Open an ORC file in the same way."""
    with _decoding(path, "ORC"):
        yield orc.ORCFile(pa.BufferReader(data))


@contextmanager
def _decoding(path: str, what: str) -> Iterator[None]:
    # Both libraries raise nearly every type of exception for damaged files.
    try:
        yield
    except LakesweepError:
        raise
    except (MemoryError, RecursionError) as error:
        raise read_failure(path, error) from error
    except Exception as error:
        raise DamagedError(path, f"is not a readable {what} file: {error}") from error


def read_parquet(
    path: str,
    data: bytes,
    columns: Sequence[ProjectedColumn],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """Read columns in batches, by field id or name; a column that is missing is null."""
    with open_parquet(path, data) as file:
        ways = _find_all(path, file.schema_arrow, columns)
        sizes = page_sizes(path, data, file.metadata, _wanted(ways))
        rows = _batch_rows(path, sizes, limits)
        found = file.iter_batches(rows, columns=_wanted(ways))
        yield from _bounded(path, (_chosen(batch, columns, ways) for batch in found), limits)


def read_orc(
    path: str,
    data: bytes,
    columns: Sequence[ProjectedColumn],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The same for an ORC file."""
    with open_orc(path, data) as file:
        if file.nrows > limits.inflated_bytes // _LEAST_ROW_BYTES:
            raise LimitError(path, f"claims to have {file.nrows:,} rows")
        ways = _find_all(path, file.schema, columns)
        stripes = (file.read_stripe(stripe, _wanted(ways)) for stripe in range(file.nstripes))
        yield from _bounded(path, (_chosen(stripe, columns, ways) for stripe in stripes), limits)


def _batch_rows(path: str, sizes: Iterable[int], limits: ReadLimits) -> int:
    """How many rows fit into a batch, even if each is as long as the largest page."""
    largest = total = 0
    for size in sizes:
        largest, total = max(largest, size), total + size
        if largest > limits.block_bytes:
            raise LimitError.of(path, "has a page of", limits.block_bytes, "limits.block_bytes")
        if total > limits.inflated_bytes:
            raise _too_large(path, limits)
    most = min(_BATCH_BYTES, limits.inflated_bytes)
    return max(1, min(_MOST_ROWS, most // max(largest, 1)))


def _bounded(
    path: str, batches: Iterable[pa.RecordBatch], limits: ReadLimits
) -> Iterator[pa.RecordBatch]:
    decoded = 0
    for batch in batches:
        decoded += batch.nbytes
        if decoded > limits.inflated_bytes:
            raise _too_large(path, limits)
        yield batch


def _too_large(path: str, limits: ReadLimits) -> LimitError:
    return LimitError.of(path, "inflates to", limits.inflated_bytes, "limits.inflated_bytes")


def _find_all(path: str, schema: pa.Schema, columns: Sequence[ProjectedColumn]) -> list[FieldPath]:
    ways = [_find(schema, column.ids or column.names) for column in columns]
    for column, way in zip(columns, ways, strict=True):
        if column.required and way is None:
            raise DamagedError(path, f"has no column {column.name!r}")
    return ways


def _wanted(ways: Sequence[FieldPath]) -> list[str]:
    return [".".join(way) for way in ways if way is not None]


def _chosen(
    batch: pa.RecordBatch, columns: Sequence[ProjectedColumn], ways: Sequence[FieldPath]
) -> pa.RecordBatch:
    batch.validate(full=True)
    arrays = [_leaf(batch, way, column.type) for column, way in zip(columns, ways, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _find(fields: pa.Schema | pa.StructType, steps: tuple[int, ...] | tuple[str, ...]) -> FieldPath:
    """The names on the path to a leaf, found by field ids or names."""
    for field in fields:
        if steps[0] in (field.name, _field_id(field)):
            below = () if len(steps) == 1 else _find_below(field.type, steps[1:])
            return None if below is None else (field.name, *below)
    return None


def _find_below(kind: pa.DataType, steps: tuple[int, ...] | tuple[str, ...]) -> FieldPath:
    return _find(kind, steps) if isinstance(kind, pa.StructType) else None


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _leaf(batch: pa.RecordBatch, way: FieldPath, wanted: pa.DataType | None) -> pa.Array:
    if way is None:
        return pa.nulls(batch.num_rows, wanted)
    array = batch[way[0]]
    for name in way[1:]:
        array = pc.struct_field(array, name)
    if pa.types.is_timestamp(array.type) and wanted == pa.int64():
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)  # as in Avro
    return array if wanted is None else array.cast(wanted)


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
