"""First documents: fresh ids, in Iceberg's order, for all that refers to fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.creation import NewTable, create_table_document


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def _field(number: int, name: str, kind: Any = "long") -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False}


def _document(*fields: dict[str, Any], **more: Any) -> Any:
    schema = {"type": "struct", "fields": fields, **more.pop("schema", {})}
    table = NewTable(_raw(schema), **more)
    document = create_table_document(table, location="/t", uuid="u", now_ms=1)
    return msgspec.json.decode(document.encode())


def test_ids_are_given_level_by_level() -> None:
    numbers = {"type": "list", "element-id": 30, "element": "long", "element-required": True}
    inner = {"type": "struct", "fields": [_field(3, "z")]}
    names = {"type": "map", "key-id": 8, "key": "string", "value-id": 7, "value": inner}
    found = _document(
        _field(20, "l", numbers), _field(10, "m", names), schema={"identifier-field-ids": [10]}
    )
    schema = found["schemas"][0]
    first, second = schema["fields"]
    assert (first["id"], second["id"], first["type"]["element-id"]) == (1, 2, 3)
    assert (second["type"]["key-id"], second["type"]["value-id"]) == (4, 5)
    assert second["type"]["value"]["fields"][0]["id"] == 6
    assert schema["identifier-field-ids"] == [2]
    assert found["last-column-id"] == 6


def test_specs_and_orders_follow_their_columns() -> None:
    spec = {"fields": [{"source-id": 9, "transform": "bucket[4]", "name": "b", "field-id": 77}]}
    order = {"fields": [{"source-id": 9, "transform": "identity", "direction": "asc"}]}
    found = _document(_field(5, "a"), _field(9, "b"), spec=_raw(spec), order=_raw(order))
    assert found["partition-specs"][0]["fields"][0] == {
        "source-id": 2,
        "transform": "bucket[4]",
        "name": "b",
        "field-id": 1000,
    }
    assert found["sort-orders"][0]["fields"][0]["source-id"] == 2
    assert (found["default-sort-order-id"], found["last-partition-id"]) == (1, 1000)


def test_versions_differ_in_what_they_need() -> None:
    first = _document(_field(1, "a"), properties={"format-version": "1"})
    third = _document(_field(1, "a"), properties={"format-version": "3"})
    assert first["schema"]["fields"]
    assert "last-sequence-number" not in first
    assert (third["current-snapshot-id"], third["next-row-id"]) == (None, 0)
    assert "format-version" not in third["properties"]


@pytest.mark.parametrize("version", ["0", "9", "x", "-1", "²"])
def test_unknown_versions_are_refused(version: str) -> None:
    with pytest.raises(InvalidUpdateError):
        _document(_field(1, "a"), properties={"format-version": version})


def test_one_id_cannot_mean_two_fields() -> None:
    with pytest.raises(InvalidUpdateError, match="two fields"):
        _document(_field(1, "a"), _field(1, "b"))
