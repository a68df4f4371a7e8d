"""Schemas, snapshots and tags as JSON documents: old, new, and damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.errors import DamagedError, FormatError, TruncatedError
from lakesweep.paimon.model.schemas import PaimonField, parse_schema
from lakesweep.paimon.model.snapshots import (
    CommitKind,
    PaimonSnapshot,
    encode_snapshot,
    parse_consumer,
    parse_snapshot,
    parse_tag,
)
from tests.paimon import TABLES, JavaWarehouses

SNAPSHOT = {
    "version": 3,
    "id": 7,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a",
    "deltaManifestList": "manifest-list-b",
    "commitUser": "u",
    "commitIdentifier": 2**63 - 1,
    "commitKind": "APPEND",
    "timeMillis": 1_700_000_000_000,
}
SCHEMA = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "k", "type": "INT NOT NULL"},
        {"id": 1, "name": "v", "type": {"type": "ARRAY", "element": "INT"}},
    ],
    "partitionKeys": ["k"],
    "primaryKeys": ["k"],
    "options": {"bucket": "2"},
}


def snapshot(**change: Any) -> PaimonSnapshot:
    return parse_snapshot("snapshot-7", json.dumps(SNAPSHOT | change).encode())


def test_a_snapshot_keeps_fields_that_are_not_known() -> None:
    assert snapshot(someday={"a": [1]}).raw["someday"] == {"a": [1]}


def test_a_snapshot_without_a_version_is_of_the_first() -> None:
    assert snapshot(version=None).version == 1


def test_absent_and_null_are_the_same() -> None:
    assert snapshot(indexManifest=None, properties=None) == snapshot()


@pytest.mark.parametrize(
    "kind", [CommitKind.APPEND, CommitKind.COMPACT, CommitKind.OVERWRITE, CommitKind.ANALYZE]
)
def test_a_snapshot_tells_what_kind_of_commit_it_is(kind: CommitKind) -> None:
    assert snapshot(commitKind=kind.value).commit_kind is kind


def test_a_snapshot_tells_what_was_committed() -> None:
    found = snapshot(watermark=-(2**63), deltaRecordCount=-4, properties={"a": "b"})
    assert (found.watermark, found.delta_record_count) == (-(2**63), -4)
    assert (found.commit_identifier, found.properties) == (2**63 - 1, {"a": "b"})


def test_a_newer_snapshot_is_refused_whatever_it_looks_like() -> None:
    with pytest.raises(DamagedError, match="has version 4") as caught:
        parse_snapshot("snapshot-7", b'{"version": 4, "all": "else"}')
    assert caught.value.hint == "use a newer lakesweep"


@pytest.mark.parametrize("field", ["id", "schemaId", "baseManifestList", "commitKind"])
def test_a_snapshot_without_a_field_that_it_needs_is_damaged(field: str) -> None:
    document = {key: value for key, value in SNAPSHOT.items() if key != field}
    with pytest.raises(DamagedError, match=field):
        parse_snapshot("snapshot-7", json.dumps(document).encode())


def test_an_unknown_kind_of_commit_is_damage() -> None:
    with pytest.raises(DamagedError, match="MERGE"):
        snapshot(commitKind="MERGE")


@pytest.mark.parametrize("data", [b"", b"  \n", b'{"version": 3, "id"'])
def test_a_snapshot_that_ends_too_early_is_truncated(data: bytes) -> None:
    with pytest.raises(TruncatedError):
        parse_snapshot("snapshot-7", data)


@pytest.mark.parametrize(
    "data", [b"[]", b"nonsense", b"\xff\xfe", b'"text"', b'{"\x80": 1}', b"[" * 9999]
)
def test_what_is_no_document_is_damaged(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_snapshot("snapshot-7", data)


def test_a_tag_of_a_time_that_cannot_be_is_damaged() -> None:
    data = json.dumps(SNAPSHOT | {"tagCreateTime": [2024, 13, 1, 0, 0]}).encode()
    with pytest.raises(DamagedError, match="time of creation"):
        parse_tag("tag-a", data, "a", None)


@pytest.mark.parametrize("name", TABLES)
def test_snapshots_of_java_survive_being_written_again(
    name: str, java_tables: JavaWarehouses
) -> None:
    for path in java_tables.table(name).folder.glob("**/snapshot/snapshot-?"):
        found = parse_snapshot(str(path), path.read_bytes())
        assert json.loads(encode_snapshot(found.raw)) == json.loads(path.read_bytes())


def schema(**change: Any) -> Any:
    return parse_schema("schema-0", json.dumps(SCHEMA | change).encode())


def test_a_schema_tells_how_the_table_is_partitioned() -> None:
    assert schema().partition_fields == (PaimonField("k", "INT NOT NULL"),)


def test_old_schemas_imply_options() -> None:
    assert schema(version=1, options={}).options.values == {"bucket": "1", "file.format": "orc"}
    assert schema(version=2, options={}).options.values == {"file.format": "orc"}
    assert schema(version=3, options={}).options.values == {}


def test_options_that_are_set_win() -> None:
    assert schema(version=1).options.text("bucket") == "2"


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(DamagedError, match="has version 4"):
        schema(version=4)


@pytest.mark.parametrize("key", ["gone", "v"])
def test_a_key_that_is_no_simple_column_is_damage(key: str) -> None:
    with pytest.raises(DamagedError, match=f"no simple column '{key}'"):
        schema(partitionKeys=[key])


DIGITS = b"9" * 5_000
DEEP = b"[" * 100_000 + b"]" * 100_000
HARM = {
    "digits": DIGITS,
    "more than 64 bits": b"9223372036854775808",
    "deep": DEEP,
    "not Unicode": b'"\xff\xfe"',
}
READERS: dict[str, tuple[Callable[[bytes], object], dict[str, Any]]] = {
    "snapshot": (lambda data: parse_snapshot("file", data), SNAPSHOT),
    "schema": (lambda data: parse_schema("file", data), SCHEMA),
    "tag": (lambda data: parse_tag("file", data, "t", None), SNAPSHOT),
    "consumer": (lambda data: parse_consumer("file", data, "c", None), {"nextSnapshot": 3}),
}
FIELDS = [
    *(("snapshot", name) for name in ("id", "version", "timeMillis", "baseManifestListSize")),
    ("snapshot", "totalRecordCount"),
    ("schema", "id"),
    ("schema", "version"),
    ("tag", "tagCreateTime"),
    ("tag", "watermark"),
    ("consumer", "nextSnapshot"),
]


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_harmed_field_is_damage_of_the_file(kind: str, field: str, harm: str) -> None:
    read, document = READERS[kind]
    whole = json.dumps(document | {field: "HERE"}).encode()
    with pytest.raises(FormatError) as caught:
        read(whole.replace(b'"HERE"', HARM[harm]))
    assert caught.value.path == "file"


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("harm", ["deep", "not Unicode"])
def test_a_harmed_field_that_is_not_known_is_damage_of_the_file(kind: str, harm: str) -> None:
    read, document = READERS[kind]
    whole = json.dumps(document | {"someday": "HERE"}).encode()
    with pytest.raises(FormatError):
        read(whole.replace(b'"HERE"', HARM[harm]))


@pytest.mark.parametrize(
    "change",
    [
        {"tagTimeRetained": 1e300},
        {"tagCreateTime": [2**62, 1, 1, 0, 0]},
        {"tagCreateTime": [2026, 1, 1, 0, 0, 0, 2**62]},
        {"tagCreateTime": []},
    ],
)
def test_a_tag_of_no_time_is_damage_of_the_file(change: dict[str, Any]) -> None:
    with pytest.raises(DamagedError, match="file"):
        parse_tag("file", json.dumps(SNAPSHOT | change).encode(), "t", None)


@pytest.mark.parametrize("folder", ["../other", "data/../../other", "..", "./data", "a\0b"])
def test_a_schema_whose_data_lies_outside_of_the_table_is_damaged(folder: str) -> None:
    options = {"data-file.path-directory": folder}
    with pytest.raises(DamagedError, match="no folder in the table"):
        parse_schema("schema-0", json.dumps(SCHEMA | {"options": options}).encode())
