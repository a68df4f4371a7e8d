from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lakesweep.errors import CommitConflictError, DamagedError, InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import decode_table_updates

NOW = 1_000_000
PATH = "s3://b/t/metadata/00001-x.metadata.json"


def _field(number: int, name: str, kind: Any = "long", **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def _schema(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), **more}


def table(version: int = 2, **fields: Any) -> dict[str, Any]:
    snapshots = [
        {"snapshot-id": n, "sequence-number": n, "timestamp-ms": n, "manifest-list": f"{n}"}
        for n in (1, 2, 3)
    ]
    return {
        "format-version": version,
        "table-uuid": "abc",
        "location": "s3://b/t",
        "last-sequence-number": 3,
        "last-updated-ms": 900,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [_schema(_field(1, "a"), _field(2, "b", "date"), **{"schema-id": 0})],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"k": "v"},
        "current-snapshot-id": 3,
        "next-row-id": 10,
        "refs": {"main": {"snapshot-id": 3, "type": "branch"}},
        "snapshots": snapshots,
        "statistics": [{"snapshot-id": 1, "statistics-path": "s1"}],
        "partition-statistics": [{"snapshot-id": 2, "statistics-path": "p2"}],
        "snapshot-log": [{"timestamp-ms": n, "snapshot-id": n} for n in (1, 2, 3)],
        "metadata-log": [],
        **fields,
    }


def edit(content: dict[str, Any], *updates: dict[str, Any]) -> dict[str, Any]:
    document = RawDocument.parse(PATH, msgspec.json.encode(content))
    decoded = decode_table_updates(msgspec.json.encode(updates))
    after = apply_table_updates(document, decoded, now_ms=NOW, location=PATH)
    return dict(json.loads(after.encode()))


def _refused(content: dict[str, Any], *updates: dict[str, Any], words: str = ".") -> None:
    with pytest.raises(InvalidUpdateError, match=words):
        edit(content, *updates)


@pytest.mark.parametrize(
    "update",
    [
        {"action": "remove-snapshots", "snapshot-ids": [99]},
        {"action": "remove-snapshot-ref", "ref-name": "none"},
        {"action": "remove-statistics", "snapshot-id": 99},
        {"action": "set-properties", "updates": {"k": "v"}},
        {"action": "set-properties", "updates": {"uuid": "computed"}},
        {"action": "remove-properties", "removals": ["none"]},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 3},
        {"action": "assign-uuid", "uuid": "ABC"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": "s3://b/t/"},
        {"action": "remove-schemas", "schema-ids": [9]},
        {"action": "remove-partition-specs", "spec-ids": [9]},
        {"action": "remove-encryption-key", "key-id": "none"},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "set-default-sort-order", "sort-order-id": 0},
    ],
    ids=lambda update: update["action"],
)
def test_an_update_without_effect_gives_the_same_document(update: dict[str, Any]) -> None:
    document = RawDocument.parse(PATH, msgspec.json.encode(table()))
    decoded = decode_table_updates(msgspec.json.encode([update]))
    assert apply_table_updates(document, decoded, now_ms=NOW, location=PATH) is document


def test_removing_a_snapshot_cuts_the_log_and_takes_its_statistics_and_refs() -> None:
    refs = {
        "main": {"snapshot-id": 3, "type": "branch"},
        "old": {"snapshot-id": 2, "type": "tag"},
    }
    after = edit(table(refs=refs), {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [each["snapshot-id"] for each in after["snapshots"]] == [1, 3]
    assert [each["snapshot-id"] for each in after["snapshot-log"]] == [3]
    assert after["refs"] == {"main": refs["main"]}
    assert (len(after["statistics"]), after["partition-statistics"]) == (1, [])
    assert after["metadata-log"] == [{"timestamp-ms": 900, "metadata-file": PATH}]
    assert after["last-updated-ms"] == NOW


@pytest.mark.parametrize(("version", "none"), [(1, -1), (2, -1), (3, None)])
def test_without_main_there_is_no_current_snapshot(version: int, none: int | None) -> None:
    after = edit(table(version), {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert (after["current-snapshot-id"], after["refs"]) == (none, {})
    assert len(after["snapshot-log"]) == 3


def test_an_absent_log_stays_absent() -> None:
    content = table()
    del content["snapshot-log"], content["refs"]
    after = edit(content, {"action": "remove-snapshots", "snapshot-ids": [1, 2]})
    assert not {"snapshot-log", "refs"} & after.keys()
    assert after["current-snapshot-id"] == 3


def test_a_tag_on_a_document_without_refs_writes_main_too() -> None:
    content = table()
    del content["refs"]
    tag = {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": 1}
    assert {*edit(content, tag)["refs"]} == {"main", "t"}


def test_time_never_runs_back() -> None:
    after = edit(table(**{"last-updated-ms": NOW + 5}), _set({"a": "b"}))
    assert after["last-updated-ms"] == NOW + 5
    log: Any = [{"timestamp-ms": NOW + 9, "snapshot-id": 3}]
    after = edit(table(**{"snapshot-log": log}), _set({"a": "b"}))
    assert after["last-updated-ms"] == NOW + 9


def _set(values: dict[str, str]) -> dict[str, Any]:
    return {"action": "set-properties", "updates": values}


@pytest.mark.parametrize(("most", "left"), [("2", 2), ("0", 1), ("-3", 1), ("many", 6), ("9", 6)])
def test_the_log_of_metadata_is_as_long_as_the_new_properties_say(most: str, left: int) -> None:
    log: Any = [{"timestamp-ms": n, "metadata-file": f"m{n}"} for n in range(5)]
    content = table(**{"metadata-log": log})
    after = edit(content, _set({"write.metadata.previous-versions-max": most}))
    assert len(after["metadata-log"]) == left
    assert after["metadata-log"][-1]["metadata-file"] == PATH


def test_old_spellings_of_property_updates() -> None:
    after = edit(
        table(),
        {"action": "set-properties", "updated": {"x": "1"}},
        {"action": "remove-properties", "removed": ["k"]},
    )
    assert after["properties"] == {"x": "1"}


def _snapshot(number: int, **more: Any) -> dict[str, Any]:
    snapshot = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": number, **more}
    return {"action": "add-snapshot", "snapshot": snapshot}


def _main(number: int, **more: Any) -> dict[str, Any]:
    ref = {"ref-name": "main", "type": "branch", "snapshot-id": number}
    return {"action": "set-snapshot-ref", **ref, **more}


def test_a_snapshot_is_added_as_it_was_sent() -> None:
    sent = _snapshot(4, **{"parent-snapshot-id": 3, "x-later": {"a": 1.50}})
    after = edit(table(), sent, _main(4, **{"min-snapshots-to-keep": 7}))
    assert after["snapshots"][-1] == sent["snapshot"]
    assert (after["last-sequence-number"], after["current-snapshot-id"]) == (4, 4)
    assert after["snapshot-log"][-1] == {"timestamp-ms": 4, "snapshot-id": 4}
    assert after["refs"]["main"] == {
        "snapshot-id": 4,
        "type": "branch",
        "min-snapshots-to-keep": 7,
    }


def test_main_moved_twice_leaves_one_line_in_the_log() -> None:
    after = edit(table(), _snapshot(4), _main(4), _snapshot(5), _main(5))
    assert [each["snapshot-id"] for each in after["snapshot-log"]] == [1, 2, 3, 5]


def test_a_rollback_is_logged_with_the_time_of_the_commit() -> None:
    after = edit(table(), _main(1))
    assert after["snapshot-log"][-1] == {"timestamp-ms": NOW, "snapshot-id": 1}


def test_a_stale_snapshot_is_a_conflict() -> None:
    with pytest.raises(CommitConflictError, match="please retry"):
        edit(table(), _snapshot(9, **{"sequence-number": 3, "parent-snapshot-id": 3}))
    rows = {"first-row-id": 9, "added-rows": 1}
    with pytest.raises(CommitConflictError, match="please retry"):
        edit(table(3), _snapshot(9, **rows))


def test_row_ids_and_sequence_numbers_only_grow() -> None:
    after = edit(table(3), _snapshot(9, **{"first-row-id": 10, "added-rows": 4}))
    assert after["next-row-id"] == 14
    assert edit(table(), _snapshot(9, **{"sequence-number": 1}))["last-sequence-number"] == 3
    _refused(table(3), _snapshot(9), words="first-row-id")


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (_snapshot(3), "exists already"),
        (_main(99), "does not exist"),
        (_main(3, type="tag"), "cannot be a tag"),
        (_main(3, **{"max-ref-age-ms": 0}), "above 0"),
        ({**_main(3, type="tag", **{"min-snapshots-to-keep": 1}), "ref-name": "t"}, "tag t"),
        ({"action": "assign-uuid", "uuid": "other"}, "reassign"),
        ({"action": "upgrade-format-version", "format-version": 1}, "cannot be upgraded"),
        ({"action": "upgrade-format-version", "format-version": 5}, "cannot be upgraded"),
        ({"action": "remove-schemas", "schema-ids": [0]}, "current schema"),
        ({"action": "remove-partition-specs", "spec-ids": [0]}, "default partition spec"),
        ({"action": "set-current-schema", "schema-id": 7}, "no schema 7"),
        ({"action": "set-current-schema", "schema-id": -1}, "no schema was added"),
        ({"action": "set-default-spec", "spec-id": 7}, "no partition spec 7"),
        ({"action": "set-default-sort-order", "sort-order-id": 7}, "no sort order 7"),
    ],
)
def test_an_update_that_does_not_fit(update: dict[str, Any], words: str) -> None:
    _refused(table(), update, words=words)


def test_the_encryption_key_of_a_table_never_changes() -> None:
    encrypted = table(3, properties={"encryption.key-id": "k1"})
    _refused(encrypted, _set({"encryption.key-id": "k2"}))
    _refused(encrypted, {"action": "remove-properties", "removals": ["encryption.key-id"]})


def test_encryption_keys_come_and_go() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "eA=="}
    add = {"action": "add-encryption-key", "encryption-key": key}
    after = edit(table(3), add, add)
    assert after["encryption-keys"] == [key]
    assert edit(after, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"] == []


def _add_schema(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"action": "add-schema", "schema": _schema(*fields, **more)}


_LAST_SCHEMA = {"action": "set-current-schema", "schema-id": -1}


def test_a_new_schema_gets_the_next_id() -> None:
    inner = {
        "type": "map",
        "key-id": 8,
        "key": "string",
        "value-id": 9,
        "value": {"type": "list", "element-id": 12, "element": "long", "element-required": True},
    }
    after = edit(table(1), _add_schema(_field(1, "a"), _field(7, "m", inner)), _LAST_SCHEMA)
    assert (after["current-schema-id"], after["last-column-id"]) == (1, 12)
    assert after["schema"] == after["schemas"][1]


def test_an_equal_schema_is_used_again() -> None:
    same = _add_schema(_field(1, "a", doc=None), _field(2, "b", "date"), **{"schema-id": 8})
    after = edit(table(), same, _LAST_SCHEMA, _set({"x": "y"}))
    assert (len(after["schemas"]), after["current-schema-id"]) == (1, 0)
    other = _add_schema(_field(1, "a"), _field(2, "b", "date"), **{"identifier-field-ids": [1]})
    assert len(edit(table(), other)["schemas"]) == 2


@pytest.mark.parametrize("kind", ["variant", "timestamp_ns", "geometry(srid:4326)"])
def test_types_of_v3(kind: str) -> None:
    _refused(table(), _add_schema(_field(3, "c", kind)), words="not supported until v3")
    assert len(edit(table(3), _add_schema(_field(3, "c", kind)))["schemas"]) == 2


def _add_spec(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-spec", "spec": {"spec-id": 7, "fields": list(fields)}}


def _part(source: int, transform: str, name: str, **more: Any) -> dict[str, Any]:
    return {"source-id": source, "transform": transform, "name": name, **more}


def test_a_spec_is_numbered_and_found_again() -> None:
    days = _part(2, "day", "d")
    use = {"action": "set-default-spec", "spec-id": -1}
    after = edit(table(1), _add_spec(days, _part(1, "bucket[4]", "a")), use)
    fields = after["partition-specs"][1]["fields"]
    assert [field["field-id"] for field in fields] == [1000, 1001]
    assert (after["last-partition-id"], after["default-spec-id"]) == (1001, 1)
    assert after["partition-spec"] == fields
    again = edit(after, _add_spec(days, _part(1, "bucket[4]", "a")), use, _set({"x": "y"}))
    assert len(again["partition-specs"]) == 2
    gone = edit(after, {"action": "remove-partition-specs", "spec-ids": [0]})
    assert [each["spec-id"] for each in gone["partition-specs"]] == [1]


@pytest.mark.parametrize(
    "field", [_part(9, "identity", "x"), _part(1, "day", "x"), _part(2, "truncate[3]", "x")]
)
def test_a_spec_that_does_not_fit_the_schema(field: dict[str, Any]) -> None:
    _refused(table(), _add_spec(field))


def test_field_ids_of_v1_have_no_gaps() -> None:
    _refused(table(1), _add_spec(_part(1, "identity", "a", **{"field-id": 1004})), words="v1")


def test_sort_orders() -> None:
    field = {"source-id": 1, "transform": "identity", "direction": "asc"}
    add = {"action": "add-sort-order", "sort-order": {"order-id": 5, "fields": [field]}}
    after = edit(table(), add, {"action": "set-default-sort-order", "sort-order-id": -1})
    assert (after["sort-orders"][1]["order-id"], after["default-sort-order-id"]) == (1, 1)
    unsorted = {"action": "add-sort-order", "sort-order": {"order-id": 3, "fields": []}}
    back = edit(after, unsorted, {"action": "set-default-sort-order", "sort-order-id": -1})
    assert (len(back["sort-orders"]), back["default-sort-order-id"]) == (2, 0)


def test_upgrades_begin_sequence_numbers_and_row_ids() -> None:
    old = table(1)
    del old["next-row-id"], old["last-sequence-number"], old["schemas"], old["partition-specs"]
    old["schema"] = _schema(_field(1, "a"))
    old["partition-spec"] = []
    after = edit(old, {"action": "upgrade-format-version", "format-version": 3})
    assert (after["last-sequence-number"], after["next-row-id"]) == (0, 0)
    assert after["schemas"] == [{**old["schema"], "schema-id": 0}]
    assert after["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert not {"schema", "partition-spec"} & after.keys()


def test_statistics_are_registered_once_for_a_snapshot() -> None:
    new = {"snapshot-id": 1, "statistics-path": "new"}
    after = edit(
        table(),
        {"action": "set-statistics", "statistics": new},
        {"action": "set-partition-statistics", "partition-statistics": new},
    )
    assert after["statistics"] == [new]
    assert len(after["partition-statistics"]) == 2
    gone = edit(after, {"action": "remove-partition-statistics", "snapshot-id": 2})
    assert gone["partition-statistics"] == [new]


def test_malformed_updates_are_refused() -> None:
    for wrong in (b'[{"action":"no-such"}]', b'[{"action":"remove-snapshots"}]', b"{"):
        with pytest.raises(InvalidUpdateError):
            decode_table_updates(wrong)


def test_a_damaged_document_is_named() -> None:
    with pytest.raises(DamagedError, match="00001-x"):
        edit(table(snapshots=[{}]), {"action": "remove-snapshots", "snapshot-ids": [1]})


def test_a_change_that_leaves_a_dangling_ref_is_refused() -> None:
    broken = table(refs={"main": {"snapshot-id": 3}, "t": {"snapshot-id": 88, "type": "tag"}})
    _refused(broken, _set({"x": "y"}), words="'t' points to snapshot 88")
    edit(broken, {"action": "remove-snapshot-ref", "ref-name": "t"})
