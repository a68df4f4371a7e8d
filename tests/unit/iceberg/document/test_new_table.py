from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.new_table import create_table_document
from lakesweep.iceberg.document.updates import decode_table_updates

_FIELD = {"id": 1, "name": "a", "required": False, "type": "long"}
_SNAPSHOT = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": 50,
    "manifest-list": "s3://b/t/metadata/snap-7.avro",
    "summary": {"operation": "append"},
    "schema-id": 0,
    "first-row-id": 0,
    "added-rows": 3,
}


def _updates(version: int) -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": {"type": "struct", "fields": [_FIELD]}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://b/t"},
        {"action": "set-properties", "updates": {"owner": "x", "format-version": "2"}},
    ]


def _create(*updates: dict[str, Any]) -> dict[str, Any]:
    decoded = decode_table_updates(msgspec.json.encode(updates))
    return dict(json.loads(create_table_document("t", decoded, now_ms=99).encode()))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_is_what_clients_read(version: int) -> None:
    document = _create(*_updates(version))
    metadata = TableMetadataUtil.parse_obj(document)
    assert (metadata.format_version, metadata.location) == (version, "s3://b/t")
    assert (document["current-schema-id"], document["default-spec-id"]) == (0, 0)
    assert (document["default-sort-order-id"], document["last-partition-id"]) == (0, 999)
    assert (document["last-column-id"], document["last-updated-ms"]) == (1, 99)
    assert (document["properties"], document["metadata-log"]) == ({"owner": "x"}, [])
    assert ("schema" in document) == (version == 1)


def test_a_table_created_with_data_has_its_first_snapshot() -> None:
    ref = {"ref-name": "main", "type": "branch", "snapshot-id": 7}
    document = _create(
        *_updates(3),
        {"action": "add-snapshot", "snapshot": _SNAPSHOT},
        {"action": "set-snapshot-ref", **ref},
    )
    assert (document["last-sequence-number"], document["next-row-id"]) == (1, 3)
    assert document["snapshot-log"] == [{"timestamp-ms": 50, "snapshot-id": 7}]
    assert document["current-snapshot-id"] == 7


@pytest.mark.parametrize("missing", [0, 3, 5, 7, 8])
def test_a_table_that_lacks_something_is_not_created(missing: int) -> None:
    updates = _updates(2)
    del updates[missing]
    with pytest.raises(InvalidUpdateError, match="a new table needs"):
        _create(*updates)


def test_an_unknown_format_version() -> None:
    with pytest.raises(InvalidUpdateError, match="no format version 9"):
        _create(*_updates(9))
