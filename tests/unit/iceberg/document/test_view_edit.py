from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.updates import decode_view_updates
from lakesweep.iceberg.document.view_edit import apply_view_updates

NOW = 5_000


def _version(number: int, sql: str, *dialects: str, **more: Any) -> dict[str, Any]:
    named = [{"type": "sql", "sql": sql, "dialect": each} for each in dialects or ("spark",)]
    return {
        "version-id": number,
        "timestamp-ms": number,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["n"],
        "representations": named,
        **more,
    }


def _view(*versions: dict[str, Any]) -> dict[str, Any]:
    return {
        "view-uuid": "abc",
        "format-version": 1,
        "location": "s3://b/v",
        "current-version-id": versions[-1]["version-id"],
        "versions": list(versions),
        "version-log": [
            {"timestamp-ms": v["version-id"], "version-id": v["version-id"]} for v in versions
        ],
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "properties": {},
        "x-storage-table": {"kept": 1},
    }


def _edit(content: dict[str, Any], *updates: dict[str, Any]) -> dict[str, Any]:
    document = RawDocument.parse("v.metadata.json", msgspec.json.encode(content))
    decoded = decode_view_updates(msgspec.json.encode(updates))
    return dict(json.loads(apply_view_updates(document, decoded, now_ms=NOW).encode()))


def _add(version: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    use = {"action": "set-current-view-version", "view-version-id": -1}
    return {"action": "add-view-version", "view-version": version}, use


def test_a_new_version_becomes_current() -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int", "required": True}]}
    add = {"action": "add-schema", "schema": schema}
    after = _edit(_view(_version(1, "a")), add, *_add(_version(1, "b", **{"schema-id": -1})))
    assert (after["current-version-id"], after["versions"][1]["schema-id"]) == (2, 1)
    assert after["version-log"][-1] == {"timestamp-ms": 1, "version-id": 2}
    assert after["x-storage-table"] == {"kept": 1}
    assert "last-column-id" not in after  # only tables have it


def test_an_equal_version_is_used_again() -> None:
    before = _view(_version(1, "a"), _version(2, "b"))
    after = _edit(before, *_add(_version(3, "a")))
    assert (len(after["versions"]), after["current-version-id"]) == (2, 1)
    assert after["version-log"][-1] == {"timestamp-ms": NOW, "version-id": 1}
    assert _edit(before, *_add(_version(9, "b"))) == before


def test_a_dialect_is_lost_only_if_that_is_allowed() -> None:
    replace = _add(_version(2, "b", "trino"))
    with pytest.raises(InvalidUpdateError, match="loss of view dialects"):
        _edit(_view(_version(1, "a", "spark", "trino")), *replace)
    allowed = _view(_version(1, "a"))
    allowed["properties"] = {"replace.drop-dialect.allowed": "true"}
    assert _edit(allowed, *replace)["current-version-id"] == 2


def test_one_query_for_a_dialect() -> None:
    with pytest.raises(InvalidUpdateError, match="multiple queries for dialect trino"):
        _edit(_view(_version(1, "a")), *_add(_version(2, "b", "trino", "Trino")))


def test_old_versions_are_forgotten_without_gaps_in_the_log() -> None:
    before = _view(_version(1, "a"), _version(2, "b"), _version(3, "c"))
    before["properties"] = {"version.history.num-entries": "2"}
    after = _edit(before, *_add(_version(4, "d")))
    assert [each["version-id"] for each in after["versions"]] == [3, 4]
    assert [each["version-id"] for each in after["version-log"]] == [3, 4]


def test_properties_and_location_leave_versions_alone() -> None:
    before = _view(_version(1, "a"))
    after = _edit(
        before,
        {"action": "set-properties", "updates": {"k": "v"}},
        {"action": "set-location", "location": "s3://b/w/"},
        {"action": "assign-uuid", "uuid": "abc"},
    )
    assert (after["properties"], after["location"]) == ({"k": "v"}, "s3://b/w")
    assert after["versions"] == before["versions"]
    assert _edit(after, {"action": "remove-properties", "removals": ["k"]})["properties"] == {}


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": "other"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-current-view-version", "view-version-id": 9},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "remove-snapshots", "snapshot-ids": [1]},
    ],
)
def test_an_update_that_does_not_fit(update: dict[str, Any]) -> None:
    with pytest.raises(InvalidUpdateError):
        _edit(_view(_version(1, "a")), update)
