"""Read columns of Parquet and ORC manifests that are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.errors import DamagedError, TruncatedError

_PARQUET_MAGIC = b"PAR1"
_READ_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError)

#: The names on the path to a leaf; None if a file does not have it.
FieldPath = tuple[str, ...] | None


@contextmanager
def open_parquet(path: str, data: bytes) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; any problem while it is open is a DamagedError."""
    if len(data) <= 2 * len(_PARQUET_MAGIC) or not data.endswith(_PARQUET_MAGIC):
        raise TruncatedError(path, "its Parquet footer is missing")
    try:
        yield pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    except _READ_ERRORS as error:
        raise DamagedError(path, f"is not a readable Parquet file: {error}") from error


@contextmanager
def open_orc(path: str, data: bytes) -> Iterator[orc.ORCFile]:
    """Open an ORC file in the same way."""
    try:
        yield orc.ORCFile(pa.BufferReader(data))
    except _READ_ERRORS as error:
        raise DamagedError(path, f"is not a readable ORC file: {error}") from error


def read_parquet(
    path: str, data: bytes, columns: Sequence[ProjectedColumn]
) -> Iterator[pa.RecordBatch]:
    """Read columns in batches, by field id or name; a column that is missing is null."""
    with open_parquet(path, data) as file:
        ways = _find_all(path, file.schema_arrow, columns)
        for batch in file.iter_batches(columns=_wanted(ways)):
            yield _chosen(batch, columns, ways)


def read_orc(
    path: str, data: bytes, columns: Sequence[ProjectedColumn]
) -> Iterator[pa.RecordBatch]:
    """The same for an ORC file."""
    with open_orc(path, data) as file:
        ways = _find_all(path, file.schema, columns)
        for stripe in range(file.nstripes):
            yield _chosen(file.read_stripe(stripe, _wanted(ways)), columns, ways)


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
