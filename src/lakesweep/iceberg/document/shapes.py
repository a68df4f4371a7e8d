"""The shapes of what clients send to become part of a document.

The edits look into schemas, specs, orders and versions as plain values. So whatever comes from
outside is checked first: a list where a number belongs is an error of the request, not ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from lakesweep.decoding import convert
from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import decode_sent
from lakesweep.iceberg.document.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    AddViewVersion,
    TableUpdate,
    ViewUpdate,
)
from lakesweep.untrusted.documents import Long

#: No engine makes types as deep as this, and every walk over a type must end.
_DEEPEST = 100


class _Field(msgspec.Struct, frozen=True):
    id: int
    name: str
    type: Any
    required: bool = False
    doc: str | None = None


class _Struct(msgspec.Struct, frozen=True, rename="kebab"):
    type: Literal["struct"]
    fields: tuple[_Field, ...]
    identifier_field_ids: tuple[int, ...] | None = None


class _List(msgspec.Struct, frozen=True, rename="kebab"):
    type: Literal["list"]
    element_id: int
    element: Any


class _Map(msgspec.Struct, frozen=True, rename="kebab"):
    type: Literal["map"]
    key_id: int
    key: Any
    value_id: int
    value: Any


class _TermField(msgspec.Struct, frozen=True, rename="kebab"):
    """A field of a partition spec or a sort order."""

    transform: str
    source_id: int | None = None
    source_ids: tuple[int, ...] | None = None
    field_id: int | None = None
    name: str | None = None


class _Terms(msgspec.Struct, frozen=True):
    fields: tuple[_TermField, ...]


class _Representation(msgspec.Struct, frozen=True):
    type: str
    sql: str | None = None
    dialect: str | None = None


class _Version(msgspec.Struct, frozen=True, rename="kebab"):
    version_id: int
    timestamp_ms: Long
    schema_id: int
    representations: tuple[_Representation, ...]
    default_namespace: tuple[str, ...]
    summary: dict[str, str] = {}
    default_catalog: str | None = None


def check_updates(updates: Iterable[TableUpdate | ViewUpdate]) -> None:
    """InvalidUpdateError if the content of an update has another shape than Iceberg's."""
    for update in updates:
        match update:
            case AddSchema():
                check_schema(update.schema)
            case AddPartitionSpec():
                check_spec(update.spec)
            case AddSortOrder():
                check_order(update.sort_order)
            case AddViewVersion():
                check_version(update.view_version)


def check_schema(raw: Raw) -> None:
    """InvalidUpdateError unless this is a schema."""
    found = decode_sent("schema", raw, _Struct)
    for field in found.fields:
        _check_type(field.type, _DEEPEST)


def check_spec(raw: Raw) -> None:
    """InvalidUpdateError unless this is a partition spec; its fields have names."""
    for field in decode_sent("partition spec", raw, _Terms).fields:
        if field.name is None:
            raise InvalidUpdateError("a partition field has no name")


def check_order(raw: Raw) -> None:
    """InvalidUpdateError unless this is a sort order."""
    decode_sent("sort order", raw, _Terms)


def check_version(raw: Raw) -> None:
    """InvalidUpdateError unless this is a version of a view."""
    decode_sent("view version", raw, _Version)


def _check_type(kind: Any, depth: int) -> None:
    if depth == 0:
        raise InvalidUpdateError(f"a type is nested more than {_DEEPEST} times")
    match kind:
        case str():
            return
        case {"type": "struct"}:
            inner: list[Any] = [field.type for field in _converted(kind, _Struct).fields]
        case {"type": "list"}:
            inner = [_converted(kind, _List).element]
        case {"type": "map"}:
            found = _converted(kind, _Map)
            inner = [found.key, found.value]
        case _:
            raise InvalidUpdateError("a field of the schema has a type that is none")
    for each in inner:
        _check_type(each, depth - 1)


def _converted(value: Any, kind: type[Any]) -> Any:
    try:
        return convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidUpdateError(f"a type of the schema cannot be read: {error}") from error
