"""Manifests in Parquet, as format version 4 drafts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.avro.projection import Column
from lakesweep.errors import DamagedError, TruncatedError

_MAGIC = b"PAR1"


def read_parquet(path: str, data: bytes, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The columns, found by their field ids, in batches; a column that is not there is null."""
    if len(data) <= 2 * len(_MAGIC) or not data.endswith(_MAGIC):
        raise TruncatedError(path, "its Parquet footer is not there")
    try:
        yield from _read(path, data, columns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DamagedError(path, f"is no readable Parquet file: {error}") from error


def _read(path: str, data: bytes, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    found = {column.name: _find(file.schema_arrow, column.ids) for column in columns}
    for column in columns:
        if column.required and found[column.name] is None:
            raise DamagedError(path, f"has no column {column.name!r}")
    wanted = [".".join(names) for names in found.values() if names is not None]
    for batch in file.iter_batches(columns=wanted):
        batch.validate(full=True)
        arrays = [_leaf(batch, found[column.name], column.type) for column in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _find(fields: pa.Schema | pa.StructType, ids: tuple[int, ...]) -> tuple[str, ...] | None:
    """The names on the way to a leaf, by the field ids on the way."""
    for field in fields:
        if _field_id(field) == ids[0]:
            below = () if len(ids) == 1 else _find_below(field.type, ids[1:])
            return None if below is None else (field.name, *below)
    return None


def _find_below(kind: pa.DataType, ids: tuple[int, ...]) -> tuple[str, ...] | None:
    return _find(kind, ids) if isinstance(kind, pa.StructType) else None


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _leaf(
    batch: pa.RecordBatch, names: tuple[str, ...] | None, wanted: pa.DataType | None
) -> pa.Array:
    if names is None:
        return pa.nulls(batch.num_rows, wanted)
    array = batch[names[0]]
    for name in names[1:]:
        array = pc.struct_field(array, name)
    return array if wanted is None else array.cast(wanted)
