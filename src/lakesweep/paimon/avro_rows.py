"""Rows in Avro: what is written has every field of what was read.

It has the form that all readers know: a plain record, never a union of one with null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from lakesweep.avro.container import read_header
from lakesweep.avro.values import read_records
from lakesweep.avro.writing import encode_avro
from lakesweep.paimon.rows import Row


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """A schema as parsed JSON, and a codec of Avro's."""

    schema: Mapping[str, Any]
    codec: str

    def encode(self, rows: Sequence[Row]) -> bytes:
        return encode_avro(self.schema, rows, self.codec)

    def widened(self, other: Self) -> Self:
        return type(self)(_with_fields(self.schema, other.schema), self.codec)


def read_avro_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a file, each with all its fields."""
    return list(read_records(path, data))


def read_avro_format(path: str, data: bytes) -> AvroFormat:
    """How a file was written."""
    header = read_header(path, data)
    return AvroFormat(_plain(header.schema), header.codec)


def _plain(schema: Any) -> Any:
    """A record instead of a union of null and a record, at every depth."""
    if isinstance(schema, list):
        records = [_plain(branch) for branch in schema if _is_record(branch)]
        return records[0] if len(records) == 1 and len(schema) == 2 else schema
    if not _is_record(schema):
        return schema
    return {**schema, "fields": [_plain_field(each) for each in schema["fields"]]}


def _plain_field(field: Mapping[str, Any]) -> dict[str, Any]:
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


def _optional(field: Mapping[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    is_optional = isinstance(kind, list) and "null" in kind
    return {**field, "type": kind if is_optional else ["null", kind], "default": None}
