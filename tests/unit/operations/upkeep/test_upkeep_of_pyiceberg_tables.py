"""Upkeep of tables that PyIceberg wrote and reads again: every snapshot stays as it was."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.errors import RefusedError
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest, IcebergExpiryResult
from lakesweep.operations.upkeep.iceberg_expiry import expire_tables
from lakesweep.operations.upkeep.iceberg_rewrites import (
    ExpirePartitions,
    MergeManifests,
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    RewriteTask,
    TableRewriteResult,
    rewrite_table,
    rewrite_tables,
)
from lakesweep.operations.upkeep.iceberg_trim import (
    TrimResult,
    TrimTablesRequest,
    trim_table,
    trim_tables,
)
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments

NAME = "lake.shop.log"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "shop", StringType(), required=False),
)
BY_DAY = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"),
    PartitionField(3, 1001, IdentityTransform(), "shop"),
)
FIRST = date(2026, 1, 1)


class Lake:
    """A catalog with one table, and an app over it."""

    def __init__(self, folder: Path) -> None:
        uri = f"sqlite:///{folder / 'catalog.db'}"
        properties = {"type": "sql", "uri": uri, "warehouse": str(folder / "lake")}
        self.catalog = SqlCatalog("lake", **properties)
        self.catalog.create_namespace("shop")
        root = {"type": "iceberg-catalog", "name": "lake", "properties": properties}
        lake = {"locations": [str(folder / "lake")], "roots": [root]}
        self.app = App(Config.model_validate({"lakes": {"l": lake}}), folder=folder)

    def create(self, **properties: str) -> Table:
        return self.catalog.create_table("shop.log", SCHEMA, None, BY_DAY, properties=properties)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.log")

    def rewrite(self, task: RewriteTask, **how: Any) -> TableRewriteResult:
        request = RewriteTablesRequest(refs=(NAME,), task=task, **how)
        return rewrite_table(self.app, NAME, request, lambda _: None)

    def trim(self, **how: Any) -> TrimResult:
        request = TrimTablesRequest(refs=(NAME,), **how)
        return trim_table(self.app, NAME, request, lambda _: None)

    def read(self) -> dict[int, list[dict[str, Any]]]:
        """The rows of every snapshot."""
        table = self.table
        return {
            each.snapshot_id: rows_of(table.scan(snapshot_id=each.snapshot_id).to_arrow())
            for each in table.snapshots()
        }


def rows_of(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def rows(*days: int | None) -> pa.Table:
    at = [None if day is None else FIRST + timedelta(days=day) for day in days]
    return pa.table(
        {
            "id": pa.array([day or 0 for day in days], pa.int64()),
            "day": pa.array(at, pa.date32()),
            "shop": pa.array(["a" if (day or 0) % 2 else None for day in days], pa.string()),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_merged_manifests_read_as_before(lake: Lake) -> None:
    table = lake.create()
    for day in range(6):
        table.append(rows(day, day + 1))
    before = lake.read()
    result = lake.rewrite(MergeManifests())
    after = lake.read()
    assert result.figures["manifests_replaced"] == 6
    assert {key: after[key] for key in before} == before
    assert after[result.snapshot_id or 0] == before[table.metadata.current_snapshot_id or 0]
    assert len(lake.table.current_snapshot().manifests(lake.table.io)) == 1  # type: ignore[union-attr]
    # Other writers go on from it.
    lake.table.append(rows(9))
    lake.table.delete("id = 2")
    assert 2 not in {row["id"] for row in rows_of(lake.table.scan().to_arrow())}
    found = rows_of(lake.table.scan(row_filter="shop = 'a'").to_arrow())
    assert {row["shop"] for row in found} == {"a"}


def test_many_manifests_are_sorted_by_partition(lake: Lake) -> None:
    table = lake.create()
    for day in range(8):
        table.append(rows(*range(day, day + 16, 2)))
    small = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    size = sum(each.manifest_length for each in small)
    result = lake.rewrite(MergeManifests(size // 7 + 1))
    made = lake.table.current_snapshot().manifests(lake.table.io)  # type: ignore[union-attr]
    assert 1 < result.figures["manifests_created"] == len(made) < 8
    ranges = [
        (each.partitions[0].lower_bound, each.partitions[0].upper_bound)
        for each in sorted(made, key=lambda each: each.partitions[0].lower_bound)
    ]
    assert all(one[1] <= two[0] for one, two in pairwise(ranges))


def test_retention_of_the_branch_survives(lake: Lake) -> None:
    table = lake.create()
    for day in range(3):
        table.append(rows(day))
    path = Path(lake.table.metadata_location)
    document = json.loads(path.read_bytes())
    document["refs"]["main"]["min-snapshots-to-keep"] = 7
    path.write_text(json.dumps(document))
    result = lake.rewrite(MergeManifests())
    written = json.loads(Path(str(result.metadata_after)).read_bytes())
    assert written["refs"]["main"]["min-snapshots-to-keep"] == 7


def test_old_partitions_go_and_what_is_not_over_stays(lake: Lake) -> None:
    table = lake.create()
    table.append(rows(0, 1, 2))
    table.append(rows(2, 3, None))
    with table.update_spec() as update:
        update.remove_field("day")
    lake.table.append(rows(40))
    lake.table.append(rows(0))
    before = lake.read()
    cut = datetime(2026, 1, 3, 12, tzinfo=UTC)
    result = lake.rewrite(ExpirePartitions("day", cut))
    after = lake.read()
    head = after[result.snapshot_id or 0]
    assert {key: after[key] for key in before} == before
    # The cut-off is noon of day 2, which is not over by then.
    assert [row["id"] for row in head] == [0, 2, 2, 3, 40]
    assert result.figures["kept_null"] == 1
    # One file of day 0 has no partition by day, and is old by its bounds.
    assert result.figures["removed"] == 3
    assert [each.files for each in result.partitions or ()] == [1, 1, 1]
    assert lake.rewrite(ExpirePartitions("day", cut)).snapshot_id is None


def test_a_table_without_deletes_has_none_that_dangle(lake: Lake) -> None:
    lake.create().append(rows(0))
    result = lake.rewrite(RemoveDanglingDeletes())
    assert result.figures == {"delete_files": 0, "dangling": 0}
    assert result.metadata_after is None


def metadata_files(lake: Lake) -> set[str]:
    folder = Path(lake.table.metadata_location).parent
    return {path.name for path in folder.glob("*.metadata.json")}


def test_metadata_that_the_log_dropped_is_deleted(lake: Lake) -> None:
    table = lake.create(**{"write.metadata.previous-versions-max": "2"})
    for day in range(5):
        table.append(rows(day))
    before, stored = lake.read(), metadata_files(lake)
    folder = Path(lake.table.metadata_location).parent
    foreign = json.loads(Path(lake.table.metadata_location).read_bytes())
    foreign["table-uuid"] = "00000000-0000-0000-0000-000000000000"
    (folder / "00000-other.metadata.json").write_text(json.dumps(foreign))
    assert lake.trim().found == 0  # all are younger than 7 days
    dry = lake.trim(grace=timedelta(), dry_run=True)
    assert (dry.found, dry.deleted) == (3, 0)
    assert metadata_files(lake) == stored | {"00000-other.metadata.json"}
    result = lake.trim(grace=timedelta())
    assert result.deleted == 3
    named = {Path(each.metadata_file).name for each in lake.table.metadata.metadata_log}
    named |= {Path(lake.table.metadata_location).name, "00000-other.metadata.json"}
    assert metadata_files(lake) == named
    assert lake.read() == before
    assert lake.trim(grace=timedelta()).found == 0


def test_a_shorter_log_is_committed_first(lake: Lake) -> None:
    table = lake.create()
    for day in range(5):
        table.append(rows(day))
    with pytest.raises(RefusedError, match="take it for failed"):
        lake.trim(keep=2, grace=timedelta())
    overrides = frozenset({"short-retention"})
    before = lake.read()
    request = TrimTablesRequest(catalog="lake", keep=2, grace=timedelta(), overrides=overrides)
    (result,) = trim_tables(lake.app, request, lambda _: None)
    assert isinstance(result, TrimResult)
    assert (result.log_before, result.log_after) == (5, 2)
    assert result.deleted == 4
    assert len(metadata_files(lake)) == 3
    assert lake.read() == before
    lake.table.append(rows(7))
    assert len(lake.table.metadata.metadata_log) == 2


@pytest.mark.parametrize("choice", [{"catalog": "lake"}, {"lake": "l"}])
def test_all_tables_of_a_catalog_or_a_lake_are_taken(lake: Lake, choice: dict[str, str]) -> None:
    for name in ("shop.log", "shop.other"):
        table = lake.catalog.create_table(name, SCHEMA, None, BY_DAY)
        table.append(rows(1))
        table.append(rows(2))
    terms = ExpiryTerms(RetentionArguments(retain_last=1, older_than_ms=2**53))
    found = list(
        expire_tables(lake.app, ExpireTablesRequest(terms=terms, **choice), lambda _: None)  # type: ignore[arg-type]
    )
    assert all(isinstance(each, IcebergExpiryResult) for each in found), found
    assert [len(each.expired_snapshots) for each in found] == [1, 1]  # type: ignore[union-attr]
    request = RewriteTablesRequest(task=MergeManifests(), **choice)  # type: ignore[arg-type]
    merged = list(rewrite_tables(lake.app, request, lambda _: None))
    assert [each.table for each in merged] == ["lake.shop.log", "lake.shop.other"]
