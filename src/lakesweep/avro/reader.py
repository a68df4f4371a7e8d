"""Read selected columns of an Avro file as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.column_buffers import BlockDecoder, DecodedRows, arrow_type
from lakesweep.avro.compiler import compile_program
from lakesweep.avro.container import (
    Data,
    Inflate,
    RawHeader,
    find_blocks,
    find_codec,
    read_only,
    read_raw_header,
)
from lakesweep.avro.projection import Path, ProjectedColumn, Shape, column_path, find_shape
from lakesweep.avro.schema import AvroSchema, AvroSchemaError, is_empty, parse_schema
from lakesweep.errors import DamagedError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

# Small blocks are processed together, since each call of the kernel has a cost.
_CHUNK_BYTES = 2**15


def read_avro(
    path: str,
    data: Data,
    columns: Sequence[ProjectedColumn],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """Read columns of the file's records, in batches of bounded size; no batch is empty.

    Never holds the whole decompressed file, or an object per row. `path` names the file in errors:
    TruncatedError if the file ends too early, DamagedError if it contradicts the format or lacks a
    required column, EncryptedError if it is an encrypted stream, LimitError if it inflates to too
    much. Earlier batches may have been returned before an error.
    """
    header = read_raw_header(path, data)
    try:
        yield from _read(header, data, _plan(header.schema, tuple(columns)), limits)
    except AvroSchemaError as error:
        raise DamagedError(path, str(error)) from None
    except pa.ArrowInvalid:
        raise DamagedError(path, "a string is not UTF-8") from None


def _read(
    header: RawHeader, data: Data, plan: DecodePlan, limits: ReadLimits
) -> Iterator[pa.RecordBatch]:
    decoder = BlockDecoder(header.path, plan.shapes, plan.program, plan.spare_rows, len(data))
    for chunk in _chunks(header, data, limits):
        yield from map(plan.batch, decoder.feed(chunk.data, chunk.blocks))
    yield from map(plan.batch, decoder.finish())


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Decompressed bytes, and the blocks in them: (first byte, end, records)."""

    data: npt.NDArray[np.uint8]
    blocks: npt.NDArray[np.int64]


def _chunks(header: RawHeader, data: Data, limits: ReadLimits) -> Iterator[_Chunk]:
    inflate = find_codec(header.path, header.codec, limits)
    for table in find_blocks(header, data):
        yield from _inflated(memoryview(data), table.tolist(), inflate)


def _inflated(data: memoryview, table: list[list[int]], inflate: Inflate) -> Iterator[_Chunk]:
    parts: list[bytes | memoryview] = []
    blocks: list[tuple[int, int, int]] = []
    size = 0
    for first, end, records in table:
        part = inflate(data[first:end])
        parts.append(part)
        blocks.append((size, size + len(part), records))
        size += len(part)
        if size >= _CHUNK_BYTES:
            yield _chunk(parts, blocks)
            parts, blocks, size = [], [], 0
    if parts:
        yield _chunk(parts, blocks)


def _chunk(parts: list[bytes | memoryview], blocks: list[tuple[int, int, int]]) -> _Chunk:
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    return _Chunk(read_only(whole), np.array(blocks, dtype=np.int64))


#: Larger schemas than any real one are not kept in memory for the next file.
_LARGEST_CACHED_SCHEMA = 2**20


def _plan(source: bytes, columns: tuple[ProjectedColumn, ...]) -> DecodePlan:
    if len(source) > _LARGEST_CACHED_SCHEMA:
        return plan_decoding.__wrapped__(source, columns)
    return plan_decoding(source, columns)


# Rows without any bytes cost nothing to claim; a block may claim this many and no more.
_SPARE_ROWS = 2**20

_PROMOTIONS = {
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """The program, the shapes of its slots, and the slot of each column, None if it has none.

    `spare_rows` is how many rows a block may claim without a byte for each.
    """

    program: npt.NDArray[np.int64]
    shapes: tuple[Shape, ...]
    slots: tuple[int | None, ...]
    schema: pa.Schema
    spare_rows: int

    def batch(self, rows: DecodedRows) -> pa.RecordBatch:
        """Put rows into the columns that the caller selected; ArrowInvalid for invalid text."""
        arrays = [
            pa.nulls(rows.count, field.type) if slot is None else rows.slots[slot].cast(field.type)
            for slot, field in zip(self.slots, self.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)


@lru_cache(maxsize=256)
def plan_decoding(source: bytes, columns: tuple[ProjectedColumn, ...]) -> DecodePlan:
    """Find the columns in a schema, and compile the program that keeps them.

    Plans are cached, as the files of one table share their schema. Raises AvroSchemaError.
    """
    if not columns:
        raise ValueError("no columns are chosen")
    try:
        return _plan_decoding(parse_schema(source), columns)
    except RecursionError:
        raise AvroSchemaError("the schema is nested too deeply") from None


def _plan_decoding(schema: AvroSchema, columns: tuple[ProjectedColumn, ...]) -> DecodePlan:
    paths = [column_path(schema, column) for column in columns]
    shapes = [_find(schema, *each) for each in zip(columns, paths, strict=True)]
    kept = [(shape, path) for shape, path in zip(shapes, paths, strict=True) if shape is not None]
    numbers = iter(range(len(kept)))
    return DecodePlan(
        program=compile_program(schema, kept),
        shapes=tuple(shape for shape, _ in kept),
        slots=tuple(None if shape is None else next(numbers) for shape in shapes),
        schema=pa.schema([_field(*each) for each in zip(columns, shapes, strict=True)]),
        spare_rows=_SPARE_ROWS if is_empty(schema.root) else 0,
    )


def _find(schema: AvroSchema, column: ProjectedColumn, path: Path) -> Shape | None:
    try:
        shape = find_shape(schema.root, path)
    except AvroSchemaError as error:
        raise AvroSchemaError(f"the column {column.name} cannot be read: {error}") from None
    if shape is None and column.required:
        raise AvroSchemaError(f"the column {column.name} is missing")
    return shape


def _field(column: ProjectedColumn, shape: Shape | None) -> pa.Field:
    found = pa.null() if shape is None else arrow_type(shape)
    wanted = found if column.type is None else column.type
    if not _promotes(found, wanted):
        raise AvroSchemaError(f"the column {column.name} is {found}, not {wanted}")
    return pa.field(column.name, wanted)


def _promotes(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _promotes(found.value_type, wanted.value_type)
    return found == wanted or pa.types.is_null(found) or (found, wanted) in _PROMOTIONS
