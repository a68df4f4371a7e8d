"""Edits of schemas: what is equal, which ids are given out, and what a format version allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from lakesweep.decoding import typed_json
from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import (
    DocumentEdit,
    Entry,
    SchemaId,
    decode_sent,
    plain,
)
from lakesweep.iceberg.document.updates import (
    LAST_ADDED,
    AddSchema,
    RemoveSchemas,
    SetCurrentSchema,
)
from lakesweep.untrusted.documents import JsonObject

SCHEMAS, CURRENT_SCHEMA, LAST_COLUMN = "schemas", "current-schema-id", "last-column-id"
_SINCE_V3 = ("timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography")
_DEFAULTS_SINCE = 3


def add_schema(edit: DocumentEdit, update: AddSchema) -> int:
    """Add a schema, unless there is an equal one; its id."""
    schema = _checked_schema(edit, update.schema)
    entries = _schemas(edit)
    meaning = _meaning(schema)
    for entry in entries:
        if _meaning(plain(entry.raw)) == meaning:
            return entry.head.schema_id
    schema_id = max((entry.head.schema_id for entry in entries), default=-1) + 1
    raw = with_field(update.schema, "schema-id", schema_id)
    edit.put_entries(SCHEMAS, [*entries, Entry(SchemaId(schema_id), raw)])
    return schema_id


def raise_last_column(edit: DocumentEdit, schema: Raw) -> None:
    """Note the highest id of a field that a table ever had; views have no such number."""
    highest = max((field["id"] for field in fields_of(plain(schema))), default=0)
    last: int | None = edit.get(LAST_COLUMN, int | None)
    if last is None or highest > last:
        edit.put(LAST_COLUMN, highest)


def set_current_schema(
    edit: DocumentEdit, update: SetCurrentSchema, last_added: int | None
) -> None:
    """Choose the schema of new data. v1 documents also hold it outside of the list."""
    schema_id = resolve_id("schema", update.schema_id, last_added)
    found = next((each for each in _schemas(edit) if each.head.schema_id == schema_id), None)
    if found is None:
        raise InvalidUpdateError(f"there is no schema {schema_id}")
    edit.put(CURRENT_SCHEMA, schema_id)
    if edit.format_version == 1:
        edit.put("schema", found.raw)


def remove_schemas(edit: DocumentEdit, update: RemoveSchemas) -> None:
    """Remove schemas; unknown ids are ignored, the current one is refused."""
    gone = set(update.schema_ids)
    if (edit.get(CURRENT_SCHEMA, int | None) or 0) in gone:
        raise InvalidUpdateError("the current schema cannot be removed")
    kept = [entry for entry in _schemas(edit) if entry.head.schema_id not in gone]
    edit.keep_entries(SCHEMAS, kept, SchemaId)


def current_schema(edit: DocumentEdit) -> JsonObject:
    """The schema that new specs and orders are bound to."""
    current = edit.get(CURRENT_SCHEMA, int | None) or 0
    for entry in _schemas(edit):
        if entry.head.schema_id == current:
            return dict(plain(entry.raw))
    found: JsonObject | None = edit.get("schema", JsonObject | None)
    if found is None:
        raise InvalidUpdateError("there is no current schema")
    return found


def resolve_id(what: str, asked: int, last_added: int | None) -> int:
    """The id that is meant: -1 stands for what the same request added, or would have added."""
    if asked != LAST_ADDED:
        return asked
    if last_added is None:
        raise InvalidUpdateError(f"no {what} was added in this request")
    return last_added


def with_field(raw: Raw, name: str, value: int) -> Raw:
    """A raw object with one field set; the others keep their bytes."""
    fields = {**typed_json(raw, dict[str, Raw]), name: value}
    return Raw(msgspec.json.encode(fields))


def fields_of(kind: Any) -> Iterator[JsonObject]:
    """All fields inside a type, at any depth; elements, keys and values have an id only."""
    match kind:
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield field
                yield from fields_of(field.get("type"))
        case {"type": "list", "element": element}:
            yield {"id": kind.get("element-id", 0), "type": element}
            yield from fields_of(element)
        case {"type": "map", "key": key, "value": value}:
            for name, inner in (("key-id", key), ("value-id", value)):
                yield {"id": kind.get(name, 0), "type": inner}
                yield from fields_of(inner)


def primitive_type(schema: JsonObject, field_id: object) -> str | None:
    """The type of a primitive field that only structs lead to; None if there is none."""
    for field in schema.get("fields", ()):
        kind = field.get("type")
        if field.get("id") == field_id:
            return kind if isinstance(kind, str) else None
        if isinstance(kind, dict) and kind.get("type") == "struct":
            found = primitive_type(kind, field_id)
            if found is not None:
                return found
    return None


def _checked_schema(edit: DocumentEdit, raw: Raw) -> JsonObject:
    schema: JsonObject = decode_sent("schema", raw, JsonObject)
    if schema.get("type") != "struct" or not isinstance(schema.get("fields"), list):
        raise InvalidUpdateError("a schema is a struct with fields")
    version = edit.format_version
    for field in fields_of(schema):
        _check_field(field, version)
    return schema


def _check_field(field: Any, version: int) -> None:
    if not isinstance(field, dict) or not isinstance(field.get("id"), int):
        raise InvalidUpdateError("a field of the schema has no id")
    kind = field.get("type")
    if version >= _DEFAULTS_SINCE:
        return
    if isinstance(kind, str) and kind.partition("(")[0] in _SINCE_V3:
        raise InvalidUpdateError(
            f"Invalid type for {field.get('name')}: {kind} is not supported until v3"
        )
    if field.get("initial-default") is not None:
        raise InvalidUpdateError(
            f"Invalid initial default for {field.get('name')}: it is not supported until v3"
        )


def _schemas(edit: DocumentEdit) -> list[Entry[SchemaId]]:
    return edit.entries(SCHEMAS, SchemaId)


def _meaning(schema: JsonObject) -> tuple[Any, frozenset[int]]:
    """What makes two schemas equal: fields with ids, docs and defaults, and identifier fields."""
    identifiers = frozenset(schema.get("identifier-field-ids") or ())
    return _without_nulls(schema.get("fields")), identifiers


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {k: _without_nulls(inner) for k, inner in value.items() if inner is not None}
        case list():
            return [_without_nulls(inner) for inner in value]
        case _:
            return value
