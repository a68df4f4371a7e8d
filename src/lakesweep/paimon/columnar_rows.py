"""Rows in ORC and Parquet: written with the very schema that was read.

ORC has no word for a field that is never null. Parquet has, and a schema of Java's comes back with
the same repetitions, names of list elements and field ids.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.errors import UnsupportedError
from lakesweep.paimon.rows import Row
from lakesweep.storage.columnar import open_orc, open_parquet

#: What Paimon compresses manifests with, for files without a column that tells.
_USUAL_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class _ColumnarFormat:
    """The schema of a file, and its codec."""

    schema: pa.Schema
    codec: str

    def encode(self, rows: Sequence[Row]) -> bytes:
        file, table = io.BytesIO(), pa.Table.from_pylist(list(rows), schema=self.schema)
        try:
            self._write(table, file)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OSError) as error:
            reason = f"manifests of this codec cannot be written: {error}"
            raise UnsupportedError(self.codec, reason) from error
        return file.getvalue()

    def widened(self, other: Self) -> Self:
        return replace(self, schema=pa.schema(_joined(self.schema, other.schema)))

    def _write(self, table: pa.Table, file: io.BytesIO) -> None:
        raise NotImplementedError


class ParquetFormat(_ColumnarFormat):
    """Parquet, without the schema of Arrow's beside its own: Java writes none."""

    def _write(self, table: pa.Table, file: io.BytesIO) -> None:
        pq.write_table(table, file, compression=self.codec, store_schema=False)


class OrcFormat(_ColumnarFormat):
    """ORC."""

    def _write(self, table: pa.Table, file: io.BytesIO) -> None:
        orc.write_table(table, file, compression=self.codec)


def read_parquet_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a Parquet file."""
    with open_parquet(path, data) as file:
        return _rows(file.read())


def read_parquet_format(path: str, data: bytes) -> ParquetFormat:
    """How a Parquet file was written."""
    with open_parquet(path, data) as file:
        metadata = file.metadata
        told = metadata.num_row_groups and metadata.num_columns
        codec = metadata.row_group(0).column(0).compression if told else _USUAL_CODEC
        return ParquetFormat(file.schema_arrow, "none" if codec == "UNCOMPRESSED" else codec)


def read_orc_rows(path: str, data: bytes) -> list[Row]:
    """All rows of an ORC file."""
    with open_orc(path, data) as file:
        return _rows(file.read())


def read_orc_format(path: str, data: bytes) -> OrcFormat:
    """How an ORC file was written."""
    with open_orc(path, data) as file:
        return OrcFormat(file.schema, str(file.compression).lower())


def _rows(table: pa.Table) -> list[Row]:
    table.validate(full=True)
    numbers = pa.schema([_numbered(field) for field in table.schema])
    rows: list[Row] = table.cast(numbers).to_pylist()
    return rows


def _numbered(field: pa.Field) -> pa.Field:
    """A field with numbers in the place of moments, which a calendar might not have."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        return field.with_type(pa.int64())
    if isinstance(kind, pa.StructType):
        return field.with_type(pa.struct([_numbered(inner) for inner in kind]))
    return field


def _joined(fields: pa.Schema | pa.StructType, others: pa.Schema | pa.StructType) -> list[pa.Field]:
    """All fields of one, and behind them those that only the other has; these may be null."""
    left = {field.name: field for field in others}
    own = [_with_inner(field, left.pop(field.name, None)) for field in fields]
    return [*own, *(field.with_nullable(True) for field in left.values())]


def _with_inner(field: pa.Field, other: pa.Field | None) -> pa.Field:
    if other is None or not all(isinstance(each.type, pa.StructType) for each in (field, other)):
        return field
    return field.with_type(pa.struct(_joined(field.type, other.type)))
