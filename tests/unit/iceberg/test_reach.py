"""Walking tables that are written here file by file."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from lakesweep.errors import UnreadableError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import load_metadata
from lakesweep.marks.unreadable import ReadFailure, Strict, Tolerant
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Recording
from tests.unit.iceberg.test_manifests import LIST_SCHEMA, encode, entry, manifest

ROOT = "s3://lake/t"
METADATA = f"{ROOT}/metadata/00001-a.metadata.json"
_names = count()


class Table:
    """A table in memory that tests put together piece by piece."""

    def __init__(self, **document: Any) -> None:
        self.store: ObjectStore = Stores().open(f"memory://reach-{next(_names)}/")
        self.recording = Recording(self.store)
        self.stores = Stores(replace={"s3://lake": self.recording})
        self.document: dict[str, Any] = {
            "format-version": 2,
            "table-uuid": "u",
            "location": ROOT,
            "snapshots": [],
            **document,
        }

    def write_list(self, number: int, *manifests: str, live: int = 1, **summary: str) -> None:
        """Add a snapshot whose list names these manifests."""
        rows = [
            {
                "manifest_path": path,
                "manifest_length": 1,
                "content": 0,
                "added_files_count": live,
                "existing_files_count": 0,
                "deleted_files_count": 0,
            }
            for path in manifests
        ]
        self.store.write(f"t/metadata/snap-{number}.avro", encode(LIST_SCHEMA, rows))
        self.document["snapshots"].append(
            {
                "snapshot-id": number,
                "manifest-list": f"{ROOT}/metadata/snap-{number}.avro",
                "summary": {name.replace("_", "-"): value for name, value in summary.items()},
            }
        )

    def write_manifest(self, name: str, *entries: Any) -> str:
        self.store.write(f"t/metadata/{name}", manifest(*entries))
        return f"{ROOT}/metadata/{name}"

    def reach(self, tolerance: Strict | Tolerant | None = None) -> list[tuple[str, str]]:
        self.store.write("t/metadata/00001-a.metadata.json", json.dumps(self.document).encode())
        metadata = load_metadata(self.stores, METADATA)
        batches = reached_files(self.stores, metadata, tolerance or Strict())
        return [(row["kind"], row["path"]) for batch in batches for row in batch.to_pylist()]


def test_a_manifest_that_many_snapshots_share_is_read_once() -> None:
    table = Table()
    shared = table.write_manifest("m0.avro", entry(name="a"))
    for number in range(5):
        table.write_list(number, shared, "s3a://lake/t/metadata/m0.avro")
    found = table.reach()
    assert table.recording.keys("read").count("t/metadata/m0.avro") == 1
    assert found.count((IcebergKind.DATA, f"{ROOT}/data/a")) == 1


def test_a_data_file_of_two_manifests_comes_twice() -> None:
    table = Table()
    manifests = [table.write_manifest(f"m{n}.avro", entry(name="a")) for n in range(2)]
    table.write_list(1, *manifests)
    assert table.reach().count((IcebergKind.DATA, f"{ROOT}/data/a")) == 2


def test_manifests_that_an_old_table_embeds_are_read() -> None:
    table = Table(**{"format-version": 1})
    embedded = table.write_manifest("m0.avro", entry(name="a"))
    table.document["snapshots"].append({"snapshot-id": 1, "manifests": [embedded]})
    kinds = {kind for kind, _ in table.reach()}
    assert kinds == {IcebergKind.DATA, IcebergKind.MANIFEST, IcebergKind.METADATA}


def test_relative_paths_of_format_four_are_taken_from_the_location() -> None:
    table = Table(**{"format-version": 4})
    relative = entry(name="a")
    relative["data_file"]["file_path"] = "data/a.parquet"
    table.write_manifest("m0.avro", relative, entry(name="b"))
    table.write_list(1, "metadata/m0.avro")
    found = table.reach()
    assert (IcebergKind.DATA, f"{ROOT}/data/a.parquet") in found
    assert (IcebergKind.DATA, f"{ROOT}/data/b") in found
    assert (IcebergKind.MANIFEST, f"{ROOT}/metadata/m0.avro") in found


def test_children_come_before_parents() -> None:
    table = Table(
        **{
            "metadata-log": [{"metadata-file": f"{ROOT}/metadata/00000-a.metadata.json"}],
            "statistics": [{"statistics-path": f"{ROOT}/metadata/1.stats"}],
            "partition-statistics": [{"statistics-path": f"{ROOT}/metadata/p.parquet"}],
        }
    )
    table.write_list(1, table.write_manifest("m0.avro", entry(name="a")))
    assert [kind for kind, _ in table.reach()] == [
        IcebergKind.DATA,
        IcebergKind.MANIFEST,
        IcebergKind.MANIFEST_LIST,
        IcebergKind.STATISTICS,
        IcebergKind.PARTITION_STATISTICS,
        IcebergKind.METADATA_LOG,
        IcebergKind.METADATA,
    ]


def test_a_list_that_names_nothing_although_there_are_data_files_is_truncated() -> None:
    table = Table()
    table.write_list(1, total_data_files="3")
    with pytest.raises(UnreadableError) as caught:
        table.reach()
    assert caught.value.state == ReadFailure.TRUNCATED


def test_a_list_that_names_fewer_data_files_than_the_snapshot_has_is_truncated() -> None:
    table = Table()
    table.write_list(1, table.write_manifest("m0.avro", entry(name="a")), total_data_files="2")
    with pytest.raises(UnreadableError, match="1 of 2"):
        table.reach()


def test_two_old_snapshots_with_one_id_are_both_read() -> None:
    table = Table(**{"format-version": 1})
    for name in ("a", "b"):
        path = table.write_manifest(f"{name}.avro", entry(name=name))
        table.document["snapshots"].append({"snapshot-id": 1, "manifests": [path]})
    assert [kind for kind, _ in table.reach()].count(IcebergKind.DATA) == 2


@pytest.mark.parametrize("total", ["0", "many"])
def test_a_list_may_name_nothing_in_an_empty_table(total: str) -> None:
    table = Table()
    table.write_list(1, total_data_files=total)
    assert [kind for kind, _ in table.reach()] == [IcebergKind.MANIFEST_LIST, IcebergKind.METADATA]


def test_a_reference_to_a_snapshot_that_is_not_there_stops_marking_only() -> None:
    table = Table(refs={"main": {"snapshot-id": 9, "type": "branch"}})
    with pytest.raises(UnreadableError, match="snapshot 9"):
        table.reach()
    tolerant = Tolerant()
    assert table.reach(tolerant)
    assert [problem.state for problem in tolerant.problems] == [ReadFailure.DAMAGED]


def test_a_damaged_manifest_contributes_nothing_at_all() -> None:
    table = Table()
    good = table.write_manifest("m0.avro", entry(name="good"))
    bad = table.write_manifest("m1.avro", entry(name="bad"))
    table.store.write("t/metadata/m1.avro", table.store.read("t/metadata/m1.avro")[:-1])
    table.write_list(1, good, bad)
    tolerant = Tolerant()
    found = table.reach(tolerant)
    assert (IcebergKind.DATA, f"{ROOT}/data/good") in found
    assert (IcebergKind.DATA, f"{ROOT}/data/bad") not in found
    assert (IcebergKind.MANIFEST, bad) in found
    assert [problem.path for problem in tolerant.problems] == [bad]


def test_a_manifest_damaged_behind_many_entries_contributes_nothing_either() -> None:
    table = Table()
    entries = [entry(name=f"{number:06}") for number in range(70_000)]
    path = table.write_manifest("m0.avro", *entries, entry(name="unknown", status=3))
    table.write_list(1, path, live=len(entries))
    tolerant = Tolerant()
    assert [kind for kind, _ in table.reach(tolerant)] == [
        IcebergKind.MANIFEST,
        IcebergKind.MANIFEST_LIST,
        IcebergKind.METADATA,
    ]
    assert [(p.path, p.state) for p in tolerant.problems] == [(path, ReadFailure.DAMAGED)]
    with pytest.raises(UnreadableError, match=r"m0\.avro"):
        table.reach()


def test_snapshots_that_share_a_list_hold_it_to_the_largest_of_their_counts() -> None:
    for totals in (("2", "1"), ("1", "2"), ("2", None)):
        table = Table()
        table.write_list(1, table.write_manifest("m0.avro", entry(name="a")))
        (snapshot,) = table.document["snapshots"]
        table.document["snapshots"] = [
            {**snapshot, "snapshot-id": n, "summary": {"total-data-files": total} if total else {}}
            for n, total in enumerate(totals)
        ]
        with pytest.raises(UnreadableError, match="1 of 2"):
            table.reach()


def test_a_manifest_in_a_store_that_nobody_knows_is_not_passed_over() -> None:
    table = Table()
    table.write_list(1, "hdfs://namenode/m0.avro")
    with pytest.raises(UnreadableError, match=r"hdfs://namenode/m0\.avro"):
        table.reach()


def test_ten_thousand_snapshots_of_one_manifest_are_no_trouble() -> None:
    table = Table()
    shared = table.write_manifest("m0.avro", entry(name="a"))
    table.write_list(0, shared)
    (snapshot,) = table.document["snapshots"]
    table.document["snapshots"] = [{**snapshot, "snapshot-id": n} for n in range(10_000)]
    assert len(table.reach()) == 4
