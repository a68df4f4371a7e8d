"""Edits of partition specs and sort orders, which are bound to the current schema."""

from __future__ import annotations

import re
from typing import Any

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import (
    DocumentEdit,
    Entry,
    OrderId,
    SpecId,
    decode_sent,
    encode,
    plain,
)
from lakesweep.iceberg.document.schemas import current_schema, primitive_type, resolve_id
from lakesweep.iceberg.document.updates import (
    AddPartitionSpec,
    AddSortOrder,
    RemovePartitionSpecs,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from lakesweep.untrusted.documents import JsonObject

SPECS, DEFAULT_SPEC, LAST_PARTITION = "partition-specs", "default-spec-id", "last-partition-id"
ORDERS, DEFAULT_ORDER = "sort-orders", "default-sort-order-id"
_BEFORE_FIRST_PARTITION = 999
_UNSORTED = 0
_DATES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_NOT_HASHED = ("boolean", "float", "double", "variant", "unknown", "geometry", "geography")
_TRUNCATED = ("int", "long", "decimal", "string", "binary")


def add_spec(edit: DocumentEdit, update: AddPartitionSpec) -> int:
    """Add a partition spec, unless there is an equal one; its id."""
    spec: JsonObject = decode_sent("partition spec", update.spec, JsonObject)
    fields = _bound_fields(edit, spec, "partition")
    entries = _specs(edit)
    for entry in entries:
        if _spec_meaning(plain(entry.raw)) == _spec_meaning(spec):
            return entry.head.spec_id
    _number_fields(edit, fields)
    spec_id = max((entry.head.spec_id for entry in entries), default=-1) + 1
    raw = encode({**spec, "spec-id": spec_id, "fields": fields})
    edit.put_entries(SPECS, [*entries, Entry(SpecId(spec_id), raw)])
    highest = max((int(field["field-id"]) for field in fields), default=_BEFORE_FIRST_PARTITION)
    edit.put(LAST_PARTITION, max(_last_partition(edit), highest))
    return spec_id


def set_default_spec(edit: DocumentEdit, update: SetDefaultSpec, last_added: int | None) -> None:
    """Choose the spec of new data. v1 documents also hold it outside of the list."""
    spec_id = resolve_id("partition spec", update.spec_id, last_added)
    found = next((each for each in _specs(edit) if each.head.spec_id == spec_id), None)
    if found is None:
        raise InvalidUpdateError(f"there is no partition spec {spec_id}")
    edit.put(DEFAULT_SPEC, spec_id)
    if edit.format_version == 1:
        edit.put("partition-spec", plain(found.raw)["fields"])


def remove_specs(edit: DocumentEdit, update: RemovePartitionSpecs) -> None:
    """Remove partition specs; unknown ids are ignored, the default one is refused."""
    gone = set(update.spec_ids)
    if (edit.get(DEFAULT_SPEC, int | None) or 0) in gone:
        raise InvalidUpdateError("the default partition spec cannot be removed")
    kept = [entry for entry in _specs(edit) if entry.head.spec_id not in gone]
    edit.keep_entries(SPECS, kept, SpecId)


def add_sort_order(edit: DocumentEdit, update: AddSortOrder) -> int:
    """Add a sort order, unless there is an equal one; its id. Unsorted is always 0."""
    order: JsonObject = decode_sent("sort order", update.sort_order, JsonObject)
    fields = _bound_fields(edit, order, "sort")
    entries = _orders(edit)
    for entry in entries:
        if plain(entry.raw).get("fields") == fields:
            return entry.head.order_id
    used = max((entry.head.order_id for entry in entries), default=_UNSORTED)
    order_id = max(used, _UNSORTED) + 1 if fields else _UNSORTED
    raw = encode({**order, "order-id": order_id})
    edit.put_entries(ORDERS, [*entries, Entry(OrderId(order_id), raw)])
    return order_id


def set_default_sort_order(
    edit: DocumentEdit, update: SetDefaultSortOrder, last_added: int | None
) -> None:
    """Choose the order of new data."""
    order_id = resolve_id("sort order", update.sort_order_id, last_added)
    if order_id not in {entry.head.order_id for entry in _orders(edit)}:
        raise InvalidUpdateError(f"there is no sort order {order_id}")
    edit.put(DEFAULT_ORDER, order_id)


def _specs(edit: DocumentEdit) -> list[Entry[SpecId]]:
    return edit.entries(SPECS, SpecId)


def _orders(edit: DocumentEdit) -> list[Entry[OrderId]]:
    return edit.entries(ORDERS, OrderId)


def _last_partition(edit: DocumentEdit) -> int:
    return int(edit.get(LAST_PARTITION, int | None) or _BEFORE_FIRST_PARTITION)


def _spec_meaning(spec: JsonObject) -> list[tuple[Any, ...]]:
    """Field ids do not count: they are given out by this table."""
    names = ("source-id", "source-ids", "transform", "name")
    return [tuple(map(field.get, names)) for field in spec.get("fields") or ()]


def _number_fields(edit: DocumentEdit, fields: list[JsonObject]) -> None:
    """Give ids to fields that have none. In v1 they count from 1000 without a gap."""
    following = _BEFORE_FIRST_PARTITION + 1
    for number, field in enumerate(fields, following):
        if edit.format_version == 1 and field.get("field-id", number) != number:
            raise InvalidUpdateError("partition field ids of a v1 table must be 1000, 1001, …")
        following = field.setdefault("field-id", following) + 1


def _bound_fields(edit: DocumentEdit, holder: JsonObject, what: str) -> list[JsonObject]:
    """The fields, each with a source that exists and a transform that fits it."""
    schema = current_schema(edit)
    fields = holder.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise InvalidUpdateError(f"a {what} spec is a list of fields")
    for field in fields:
        _check_source(schema, field)
    return [dict(field) for field in fields]


def _check_source(schema: JsonObject, field: JsonObject) -> None:
    if "source-ids" in field or field.get("transform") == "void":
        return  # transforms of several columns are not known here; void fits any column, even none
    kind = primitive_type(schema, field.get("source-id"))
    if kind is None:
        raise InvalidUpdateError(f"Cannot find source column: {field.get('source-id')}")
    if not _fits(str(field.get("transform")), kind):
        raise InvalidUpdateError(f"Invalid source type {kind} for transform: {field['transform']}")


def _fits(transform: str, kind: str) -> bool:
    """Whether a transform takes a type. An unknown one does: newer writers know it."""
    base = kind.partition("(")[0]
    match re.sub(r"\[\d+\]$", "", transform):
        case "year" | "month" | "day":
            return base in _DATES
        case "hour":
            return base in _DATES[1:]
        case "bucket":
            return base not in _NOT_HASHED
        case "truncate":
            return base in _TRUNCATED
        case "identity":
            return base not in ("variant", "geometry", "geography")
        case _:
            return True
