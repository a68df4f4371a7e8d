from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakesweep.errors import DamagedError, LimitError, TruncatedError
from lakesweep.iceberg.metadata import IcebergSnapshot, TableMetadata, ViewMetadata, parse_metadata
from lakesweep.untrusted.limits import ReadLimits

PATH = "s3://lake/t/metadata/00001-5c2f.metadata.json"


def document(**changes: Any) -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": "801e74ae-d05f-4c42-bdc5-e1a4951ad5e0",
        "location": "s3://lake/t",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


def encode(**changes: Any) -> bytes:
    return json.dumps(document(**changes)).encode()


def table(path: str = PATH, **changes: Any) -> TableMetadata:
    metadata = parse_metadata(path, encode(**changes))
    assert isinstance(metadata, TableMetadata)
    return metadata


def snapshot(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {"snapshot-id": number, "manifest-list": f"s3://lake/t/metadata/snap-{number}.avro"} | {
        name.replace("_", "-"): value for name, value in changes.items()
    }


def test_every_place_that_names_files_is_read() -> None:
    metadata = table(
        snapshots=[snapshot(1), snapshot(2)],
        metadata_log=[{"timestamp-ms": 1, "metadata-file": "s3://lake/t/metadata/0.metadata.json"}],
        statistics=[{"statistics-path": "s3://lake/t/a.stats", "file-size-in-bytes": 7}],
        partition_statistics=[{"statistics-path": "s3://lake/t/p.parquet"}],
    )
    assert [s.manifest_list for s in metadata.snapshots] == [
        "s3://lake/t/metadata/snap-1.avro",
        "s3://lake/t/metadata/snap-2.avro",
    ]
    assert metadata.log == ("s3://lake/t/metadata/0.metadata.json",)
    assert [(f.path, f.size_bytes) for f in metadata.statistics] == [("s3://lake/t/a.stats", 7)]
    assert [f.path for f in metadata.partition_statistics] == ["s3://lake/t/p.parquet"]


@pytest.mark.parametrize(("written", "moment"), [(7, 7), ("7", None), (None, None)])
def test_a_snapshot_knows_when_it_was_made_if_the_file_says_so(
    written: Any, moment: int | None
) -> None:
    [found] = table(snapshots=[snapshot(timestamp_ms=written)]).snapshots
    assert found.timestamp_ms == moment


def test_fields_that_are_not_known_are_passed_over() -> None:
    assert table(next_big_thing={"deep": [1, {"x": None}]}).location == "s3://lake/t"


def test_an_old_table_may_embed_its_manifests() -> None:
    metadata = table(
        format_version=1,
        snapshots=[{"snapshot-id": 4, "manifests": ["s3://lake/t/m0.avro", "s3://lake/t/m1.avro"]}],
    )
    assert metadata.snapshots == (
        IcebergSnapshot(4, None, ("s3://lake/t/m0.avro", "s3://lake/t/m1.avro")),
    )


def test_a_manifest_list_wins_over_embedded_manifests() -> None:
    (only,) = table(snapshots=[snapshot(1, manifests=["s3://lake/t/m.avro"])]).snapshots
    assert only.manifests == ()


def test_a_snapshot_without_manifests_is_damage_not_emptiness() -> None:
    with pytest.raises(DamagedError, match="snapshot 9 names no manifests"):
        table(snapshots=[{"snapshot-id": 9}])


def test_gzip_is_seen_by_its_bytes_not_by_the_name() -> None:
    metadata = parse_metadata(PATH, gzip.compress(encode()))
    assert metadata.location == "s3://lake/t"


def test_a_view_names_nothing_but_itself() -> None:
    data = json.dumps(
        {"format-version": 1, "view-uuid": "7d3e71a8", "location": "s3://lake/v", "versions": []}
    ).encode()
    metadata = parse_metadata(PATH, data)
    assert isinstance(metadata, ViewMetadata)
    assert metadata.size_bytes == len(data)


@pytest.mark.parametrize(
    ("properties", "enabled"),
    [
        (None, True),
        ({}, True),
        ({"gc.enabled": "TRUE"}, True),
        *(({"gc.enabled": value}, False) for value in ("false", "FALSE", " false", "no", "0", "")),
    ],
)
def test_gc_is_enabled_only_by_silence_or_by_true(
    properties: dict[str, str] | None, enabled: bool
) -> None:
    assert table(properties=properties).gc_enabled is enabled


def test_write_paths_are_folders_of_the_table_too() -> None:
    metadata = table(properties={"write.data.path": "s3://other/d", "write.metadata.path": ""})
    assert metadata.write_paths == ("s3://other/d",)


def test_partition_fields_that_look_hidden_are_told_as_they_are_in_paths() -> None:
    fields = [{"name": name} for name in ("_b", "plain", ".a/x", "_b")]
    specs = [{"spec-id": 0, "fields": fields[:2]}, {"spec-id": 1, "fields": fields[2:]}]
    assert table(partition_specs=specs).hidden_fields == (".a%2Fx", "_b")
    assert table(partition_spec=fields[:1]).hidden_fields == ("_b",)


@pytest.mark.parametrize("specs", [None, [], 7, {"fields": []}, [7, {"fields": 7}, {}]])
def test_odd_partition_specs_say_nothing(specs: object) -> None:
    assert table(partition_specs=specs, partition_spec=specs).hidden_fields == ()


@pytest.mark.parametrize("current", [None, -1])
def test_a_table_may_have_no_current_snapshot(current: int | None) -> None:
    assert table(current_snapshot_id=current).dangling == ()


def test_references_to_snapshots_that_are_not_there_are_told() -> None:
    metadata = table(
        snapshots=[snapshot(1)],
        current_snapshot_id=2,
        refs={"main": {"snapshot-id": 1}, "old": {"snapshot-id": 3, "type": "tag"}},
    )
    assert len(metadata.dangling) == 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("v3.metadata.json", True),
        ("v3.gz.metadata.json", True),
        ("v3.metadata.json.gz", True),
        ("00003-5c2f.metadata.json", False),
    ],
)
def test_only_tables_without_a_catalog_have_a_version_hint(name: str, hint: bool) -> None:
    found = table(f"s3://lake/t/metadata/{name}").version_hint
    assert found == ("s3://lake/t/metadata/version-hint.text" if hint else None)


@pytest.mark.parametrize(
    ("version", "path", "resolved"),
    [
        (4, "metadata/a.stats", "s3://lake/t/metadata/a.stats"),
        (4, "s3a://lake/x.stats", "s3a://lake/x.stats"),
        (3, "metadata/a.stats", "metadata/a.stats"),
    ],
)
def test_relative_paths_belong_to_format_four(version: int, path: str, resolved: str) -> None:
    found = table(format_version=version, statistics=[{"statistics-path": path}])
    assert [file.path for file in found.statistics] == [resolved]


def test_the_location_may_come_from_the_catalog() -> None:
    data = encode(location=None, format_version=4)
    assert parse_metadata(PATH, data, "s3://lake/moved").location == "s3://lake/moved"
    with pytest.raises(DamagedError, match="has no location"):
        parse_metadata(PATH, data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", TruncatedError),
        (encode()[:-1], TruncatedError),
        (encode()[: len(encode()) // 2], TruncatedError),
        (gzip.compress(encode(), mtime=0)[:-9], TruncatedError),
        (
            gzip.compress(encode(), mtime=0)[:10] + b"\xff" * 3 + gzip.compress(encode())[13:],
            DamagedError,
        ),
        (b"<html>", DamagedError),
        (b"[]", DamagedError),
        (b"{}", DamagedError),
        (b'{"format-version": 2, "location": "s3://l/t"}', DamagedError),
        (b'{"format-version": "2"}', DamagedError),
        (b'{"format-version": 2, "location": "\xff"}', DamagedError),
        (b"[" * 100_000, DamagedError),
        (encode(x=[]).replace(b"[]", b"[" * 100_000), LimitError),
        (encode(format_version=5), DamagedError),
        (encode(format_version=0), DamagedError),
        (encode(snapshots=[{"manifest-list": "x"}]), DamagedError),
        (encode(metadata_log=[{}]), DamagedError),
        (encode(statistics=[{"snapshot-id": 1}]), DamagedError),
    ],
)
def test_what_is_no_metadata_is_told_apart(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"00001-5c2f\.metadata\.json"):
        parse_metadata(PATH, data)


@pytest.mark.parametrize(
    "changes",
    [
        {"location": "s3://lake/t\0"},
        {"properties": {"write.data.path": "s3://lake/\0"}},
        {"snapshots": [snapshot(manifest_list="s3://lake/\0.avro")]},
        {"snapshots": [snapshot(2**63)]},
        {"current_snapshot_id": -(2**63) - 1},
        {"statistics": [{"statistics-path": "s3://lake/a", "file-size-in-bytes": 2**63}]},
        {"metadata_log": [{"metadata-file": "s3://lake/\0"}]},
    ],
)
def test_values_that_no_store_or_column_can_hold_are_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(DamagedError, match="00001-5c2f"):
        table(**changes)


def test_a_number_of_5000_digits_is_damage() -> None:
    data = encode(current_snapshot_id=7).replace(b"7}", b"7" * 5000 + b"}")
    with pytest.raises(DamagedError, match="00001-5c2f"):
        parse_metadata(PATH, data)


@pytest.mark.parametrize("moment", [-(2**63), 2**63, 10**30, -1])
def test_a_moment_that_no_calendar_has_is_unknown(moment: int) -> None:
    assert table(snapshots=[snapshot(timestamp_ms=moment)]).snapshots[0].timestamp_ms is None


@pytest.mark.parametrize("count", ["9" * 5000, str(2**63), "-1", "many"])
def test_a_count_that_no_table_has_is_unknown(count: str) -> None:
    found = table(snapshots=[snapshot(summary={"total-data-files": count})]).snapshots[0]
    assert found.total_data_files is None


def test_a_gzip_bomb_is_refused() -> None:
    with pytest.raises(LimitError, match="inflates to more than 1,000 bytes"):
        parse_metadata(PATH, gzip.compress(bytes(2**20)), None, ReadLimits(inflated_bytes=1000))
