"""Manifest files as rows that can be written again, in Avro, ORC or Parquet.

Readers expect all manifests of a table in one format, so files are written in the format and
with every field of those that were read. Avro is written as plain records, which all readers
know. Parquet keeps the repetition, list element names and field ids that Java wrote; ORC
cannot express that a field is never null.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.avro.container import read_header
from lakesweep.avro.records import read_records
from lakesweep.avro.writer import encode_avro
from lakesweep.errors import UnsupportedError
from lakesweep.marks.columnar import open_orc, open_parquet, read_whole_parquet
from lakesweep.marks.parquet_pages import first_codec
from lakesweep.untrusted.documents import JsonObject
from lakesweep.untrusted.limits import reading


class _Reader(NamedTuple):
    rows: Callable[[str, bytes], list[Row]]
    format: Callable[[str, bytes], RowFormat]


def read_avro_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a file, each with all its fields."""
    return list(read_records(path, data))


def read_avro_format(path: str, data: bytes) -> AvroFormat:
    """How a file was written."""
    header = read_header(path, data)
    return AvroFormat(_plain(header.schema), header.codec)


def read_orc_rows(path: str, data: bytes) -> list[Row]:
    """All rows of an ORC file."""
    with open_orc(path, data) as file:
        return _rows(file.read())


def read_orc_format(path: str, data: bytes) -> OrcFormat:
    """How an ORC file was written."""
    with open_orc(path, data) as file:
        return OrcFormat(file.schema, str(file.compression).lower())


def read_parquet_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a Parquet file."""
    return _rows(read_whole_parquet(path, data))


def read_parquet_format(path: str, data: bytes) -> ParquetFormat:
    """How a Parquet file was written."""
    with open_parquet(path, data) as file:
        return ParquetFormat(file.schema_arrow, first_codec(path, data) or _USUAL_CODEC)


#: By how files begin.
_READERS = {
    b"Obj\x01": _Reader(read_avro_rows, read_avro_format),
    b"ORC": _Reader(read_orc_rows, read_orc_format),
    b"PAR1": _Reader(read_parquet_rows, read_parquet_format),
}


def read_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a file, each with all its fields."""
    with reading(path):
        return _reader(path, data).rows(path, data)


def read_format(path: str, data: bytes) -> RowFormat:
    """How a file was written; UnsupportedError where that is not known."""
    with reading(path):
        return _reader(path, data).format(path, data)


def widest(table: str, formats: Sequence[RowFormat]) -> RowFormat:
    """The format of the last, which is the newest, with what only the others have behind it."""
    check_alike(table, formats)
    found = formats[-1]
    for other in formats[:-1]:
        found = found.widened(other)
    return found


def check_alike(table: str, formats: Sequence[RowFormat]) -> None:
    """UnsupportedError where some of these are of another kind: no reader knows two at once."""
    if len({type(each) for each in formats}) > 1:
        raise UnsupportedError(
            table,
            "its manifests are in more than one format",
            hint="let the engine that writes this table rewrite them in one",
        )


def _reader(path: str, data: bytes) -> _Reader:
    for magic, reader in _READERS.items():
        if data.startswith(magic):
            return reader
    raise UnsupportedError(path, "is neither Avro nor ORC nor Parquet")


#: A row by the names of Paimon's fields. Moments are numbers, as they stand in the file.
Row: TypeAlias = dict[str, Any]


class RowFormat(Protocol):
    """How the rows of a file were written, and others can be."""

    def encode(self, rows: Sequence[Row]) -> bytes:
        """A file of these rows."""
        ...

    def widened(self, other: Self) -> Self:
        """The same with fields that only another one of its kind has, behind its own."""
        ...


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """A schema as parsed JSON, and a codec of Avro's."""

    schema: Mapping[str, Any]
    codec: str

    def encode(self, rows: Sequence[Row]) -> bytes:
        return encode_avro(self.schema, rows, self.codec)

    def widened(self, other: Self) -> Self:
        return type(self)(_with_fields(self.schema, other.schema), self.codec)


def _plain(schema: Any) -> Any:
    """A record instead of a union of null and a record, at every depth."""
    if isinstance(schema, list):
        records = [_plain(branch) for branch in schema if _is_record(branch)]
        return records[0] if len(records) == 1 and len(schema) == 2 else schema
    if not _is_record(schema):
        return schema
    return {**schema, "fields": [_plain_field(each) for each in schema["fields"]]}


def _plain_field(field: Mapping[str, Any]) -> JsonObject:
    found = {**field, "type": _plain(field["type"])}
    if field["name"] in _OPTIONAL_RECORDS:
        return {**found, "type": field["type"]}
    if _is_record(found["type"]) and "default" in found:
        del found["default"]
    return found


#: Records that are really absent in some rows.
_OPTIONAL_RECORDS = frozenset({"_GLOBAL_INDEX"})


def _is_record(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "record"


def _with_fields(schema: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record that also has the fields of another one; new ones may be null."""
    others = {each["name"]: each for each in other["fields"]}
    fields = [_with_inner(each, others.pop(each["name"], None)) for each in schema["fields"]]
    return {**schema, "fields": [*fields, *(_optional(each) for each in others.values())]}


def _with_inner(field: Mapping[str, Any], other: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if other is None or not (_is_record(field["type"]) and _is_record(other["type"])):
        return field
    return {**field, "type": _with_fields(field["type"], other["type"])}


def _optional(field: Mapping[str, Any]) -> JsonObject:
    kind = field["type"]
    is_optional = isinstance(kind, list) and "null" in kind
    return {**field, "type": kind if is_optional else ["null", kind], "default": None}


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
    own = [_with_inner_field(field, left.pop(field.name, None)) for field in fields]
    return [*own, *(field.with_nullable(True) for field in left.values())]


def _with_inner_field(field: pa.Field, other: pa.Field | None) -> pa.Field:
    if other is None or not all(isinstance(each.type, pa.StructType) for each in (field, other)):
        return field
    return field.with_type(pa.struct(_joined(field.type, other.type)))
