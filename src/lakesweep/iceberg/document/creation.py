"""The first metadata document of a table or a view.

A new document is an empty one with updates applied, so tables that a client creates at once and
tables that it stages first come out alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from msgspec import Raw

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument, encode, no_snapshot, plain
from lakesweep.iceberg.document.schemas import with_field
from lakesweep.iceberg.document.shapes import (
    check_order,
    check_schema,
    check_spec,
    check_version,
)
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    AddViewVersion,
    AssignUuid,
    SetCurrentSchema,
    SetCurrentViewVersion,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetProperties,
    TableUpdate,
    UpgradeFormatVersion,
)
from lakesweep.iceberg.document.view_edit import apply_view_updates
from lakesweep.untrusted.documents import JsonObject

#: What names a document in errors that no file holds yet.
UNWRITTEN = "the new metadata"
ABSENT = Raw(b"null")
_FORMAT = "format-version"
_USUAL_FORMAT, _NEWEST_FORMAT = 2, 4
_SEQUENCE_SINCE, _ROW_IDS_SINCE = 2, 3
_BEFORE_FIRST_PARTITION = 999
_NO_FIELDS: Mapping[str, Any] = {"fields": []}
#: Readers of long ago take gzip if nothing is said; writers of today agree on this.
_DEFAULTS = {"write.parquet.compression-codec": "zstd"}


@dataclass(frozen=True, slots=True)
class NewTable:
    """What a client says of a table that is to be created; its field ids are only its own."""

    schema: Raw
    spec: Raw = field(default_factory=lambda: ABSENT)
    order: Raw = field(default_factory=lambda: ABSENT)
    properties: Mapping[str, str] = field(default_factory=dict)


def create_table_document(table: NewTable, *, location: str, uuid: str, now_ms: int) -> RawDocument:
    """The first document of a table. Fields get ids from 1 on, in Iceberg's order."""
    check_schema(table.schema)
    schema, ids = _fresh_schema(plain(table.schema))
    spec, order = (
        plain(raw) if is_given(raw) else dict(_NO_FIELDS) for raw in (table.spec, table.order)
    )
    if is_given(table.spec):
        check_spec(table.spec)
    if is_given(table.order):
        check_order(table.order)
    updates: list[TableUpdate] = [
        AssignUuid(uuid=uuid),
        AddSchema(schema=encode(schema)),
        SetCurrentSchema(schema_id=LAST_ADDED),
        AddPartitionSpec(spec=encode({**spec, "fields": list(_partition_fields(spec, ids))})),
        SetDefaultSpec(spec_id=LAST_ADDED),
        AddSortOrder(sort_order=encode({**order, "fields": list(_sourced(order, ids))})),
        SetDefaultSortOrder(sort_order_id=LAST_ADDED),
        SetLocation(location=location),
        SetProperties(updates={**_DEFAULTS, **table.properties}),
    ]
    document = empty_document(_format_version(table.properties))
    return apply_table_updates(document, updates, now_ms=now_ms, location=None)


def begin_table_document(updates: Iterable[TableUpdate]) -> RawDocument:
    """The empty document that the updates of a staged table are applied to."""
    versions = (each.format_version for each in updates if isinstance(each, UpgradeFormatVersion))
    return empty_document(_checked_format(next(versions, _USUAL_FORMAT)))


def complete_table_document(document: RawDocument, *, uuid: str, now_ms: int) -> RawDocument:
    """A new document with what its updates left out; InvalidUpdateError without a schema."""
    if not document.get("schemas", list[Raw]):
        raise InvalidUpdateError("a table cannot be created without a schema")
    if document.get("location", str | None) is None:
        raise InvalidUpdateError("a table cannot be created without a location")
    missing: list[TableUpdate] = []
    if document.get("table-uuid", str | None) is None:
        missing.append(AssignUuid(uuid=uuid))
    if not document.get("partition-specs", list[Raw]):
        spec = AddPartitionSpec(spec=encode(_NO_FIELDS))
        missing += (spec, SetDefaultSpec(spec_id=LAST_ADDED))
    if not document.get("sort-orders", list[Raw]):
        order = AddSortOrder(sort_order=encode(_NO_FIELDS))
        missing += (order, SetDefaultSortOrder(sort_order_id=LAST_ADDED))
    return apply_table_updates(document, missing, now_ms=now_ms, location=None)


def empty_document(version: int) -> RawDocument:
    """A document of a table that has nothing yet, in the order in which Iceberg writes fields."""
    fields: JsonObject = {
        _FORMAT: version,
        "table-uuid": None,
        "location": None,
        **({"last-sequence-number": 0} if version >= _SEQUENCE_SINCE else {}),
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": _BEFORE_FIRST_PARTITION,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": no_snapshot(version),
        **({"next-row-id": 0} if version >= _ROW_IDS_SINCE else {}),
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    return RawDocument(UNWRITTEN, {name: encode(value) for name, value in fields.items()})


def create_view_document(
    schema: Raw,
    version: Raw,
    properties: Mapping[str, str],
    *,
    location: str,
    uuid: str,
    now_ms: int,
) -> RawDocument:
    """The first document of a view. Field ids stay; the schema becomes number 0."""
    check_schema(schema)
    check_version(version)
    fields = {
        "view-uuid": uuid,
        _FORMAT: 1,
        "location": location,
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "properties": {},
    }
    document = RawDocument(UNWRITTEN, {name: encode(value) for name, value in fields.items()})
    updates = (
        AddSchema(schema=schema),
        AddViewVersion(view_version=with_field(version, "schema-id", LAST_ADDED)),
        SetCurrentViewVersion(view_version_id=LAST_ADDED),
        SetLocation(location=location),
        SetProperties(updates=dict(properties)),
    )
    return apply_view_updates(document, updates, now_ms=now_ms)


def is_given(raw: Raw) -> bool:
    """Whether an optional part of a request is there."""
    return bytes(raw) != bytes(ABSENT)


def _format_version(properties: Mapping[str, str]) -> int:
    text = properties.get(_FORMAT, str(_USUAL_FORMAT))
    if not text.isascii() or not text.isdigit():
        raise InvalidUpdateError(f"{_FORMAT} is {text[:20]!r}, which is no number")
    return _checked_format(int(text[:9]))


def _checked_format(version: int) -> int:
    if not 1 <= version <= _NEWEST_FORMAT:
        raise InvalidUpdateError(f"Unsupported format version: v{version}")
    return version


def _fresh_schema(schema: JsonObject) -> tuple[JsonObject, Mapping[int, int]]:
    """The schema with ids from 1 on, and which id each field had before."""
    ids = _FreshIds()
    fresh = ids.renumber(schema)
    identifiers = [ids.of(each) for each in schema.get("identifier-field-ids") or ()]
    if identifiers:
        fresh["identifier-field-ids"] = identifiers
    return fresh, ids.known


class _FreshIds:
    """Gives out ids: to all fields of a struct first, then to what is inside of them."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._next = count(1)

    def of(self, old: int) -> int:
        """The new id of a field."""
        return _new_id(self.known, old)

    def renumber(self, kind: Any) -> Any:
        """A type with new ids."""
        match kind:
            case {"type": "struct", "fields": fields}:
                given = [{**each, "id": self._give(each["id"])} for each in fields]
                inner = [{**each, "type": self.renumber(each["type"])} for each in given]
                return {**kind, "fields": inner}
            case {"type": "list"}:
                number = self._give(kind["element-id"])
                return {**kind, "element-id": number, "element": self.renumber(kind["element"])}
            case {"type": "map"}:
                numbers = {name: self._give(kind[name]) for name in ("key-id", "value-id")}
                inner_types = {name: self.renumber(kind[name]) for name in ("key", "value")}
                return {**kind, **numbers, **inner_types}
            case _:
                return kind

    def _give(self, old: int) -> int:
        if old in self.known:
            raise InvalidUpdateError(f"two fields of the schema have the id {old}")
        self.known[old] = next(self._next)
        return self.known[old]


def _sourced(holder: Mapping[str, Any], ids: Mapping[int, int]) -> Iterator[JsonObject]:
    """Fields of a spec or an order, with the new ids of their columns."""
    for each in holder["fields"]:
        moved = dict(each)
        if each.get("source-id") is not None:
            moved["source-id"] = _new_id(ids, each["source-id"])
        if each.get("source-ids") is not None:
            moved["source-ids"] = [_new_id(ids, old) for old in each["source-ids"]]
        yield moved


def _partition_fields(spec: Mapping[str, Any], ids: Mapping[int, int]) -> Iterator[JsonObject]:
    for number, each in enumerate(_sourced(spec, ids), _BEFORE_FIRST_PARTITION + 1):
        yield {**each, "field-id": number}


def _new_id(ids: Mapping[int, int], old: int) -> int:
    if old not in ids:
        raise InvalidUpdateError(f"Cannot find source column: {old}")
    return ids[old]
