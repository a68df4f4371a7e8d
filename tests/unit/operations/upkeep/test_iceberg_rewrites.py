"""Rewriting current snapshots of tables that Iceberg wrote: v1, v2 and v3, all specs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import IncompleteError, UnsupportedError, UsageError
from lakesweep.iceberg.commits.open_table import open_table as open_one
from lakesweep.iceberg.commits.table_handle import CommitOutcome, CommitStatus
from lakesweep.operations.upkeep import iceberg_rewrites
from lakesweep.operations.upkeep.iceberg_rewrites import (
    ExpirePartitions,
    MergeManifests,
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    RewriteTask,
    TableRewriteResult,
    rewrite_table,
)
from lakesweep.storage.address import parse
from tests.expiry_lake import archived
from tests.iceberg_expiries import AtticApp
from tests.manifest_oracle import document_at, head_of, listed, live_files

NOW_MS = 1_900_000_000_000
TABLES = sorted(
    name
    for name in json.loads(archived()["expected/catalog.json"])
    if name.startswith("attic.") and name != "attic.odd.draft_v4"
)


@pytest.fixture(scope="module")
def attic(tmp_path_factory: pytest.TempPathFactory) -> AtticApp:
    return AtticApp(tmp_path_factory.mktemp("attic"), NOW_MS)


def agree(preview: TableRewriteResult) -> None:
    """Agree to everything."""


def rewrite(attic: AtticApp, table: str, task: RewriteTask, **how: Any) -> TableRewriteResult:
    request = RewriteTablesRequest(refs=(table,), task=task, **how)
    return rewrite_table(attic.app, table, request, agree)


def reader(attic: AtticApp) -> Any:
    def read(path: str) -> bytes:
        address = parse(path)
        return attic.buckets[address.base.rstrip("/")].read(address.key)

    return read


@pytest.mark.parametrize("table", TABLES)
def test_merged_manifests_hold_the_same_files(table: str, attic: AtticApp) -> None:
    read, stored = reader(attic), attic.stored()
    result = rewrite(attic, table, MergeManifests())
    before = document_at(read, result.metadata_before)
    head = head_of(before)
    if head is None:
        assert result.figures == {}
        return
    rows = listed(read, head)
    groups = {(row.get("content", 0), row["partition_spec_id"]) for row in rows}
    if len(rows) == len(groups) or not live_files(read, head, before["format-version"]):
        assert result.metadata_after is None
        assert attic.stored() == stored
        return
    assert result.metadata_after is not None
    after = document_at(read, result.metadata_after)
    new = head_of(after)
    assert new is not None
    version = after["format-version"]
    assert live_files(read, new, version) == live_files(read, head, version)
    # Manifests of an upgraded table have entries of several forms.
    assert len(groups) <= len(listed(read, new)) < len(rows)
    assert [*after["snapshots"][:-1]] == before["snapshots"]
    assert stored <= attic.stored()
    assert rewrite(attic, table, MergeManifests()).metadata_after is None


@pytest.mark.parametrize("table", ["attic.shop.stats", "attic.shop.v1"])
def test_summaries_of_manifests_bound_their_partitions(table: str, tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, NOW_MS)
    read = reader(attic)
    result = rewrite(attic, table, MergeManifests())
    old = listed(read, head_of(document_at(read, result.metadata_before)) or {})
    new = listed(read, head_of(document_at(read, str(result.metadata_after))) or {})
    for merged in new:
        rows = [row for row in old if row.get("content") == merged.get("content")]
        assert len(merged["partitions"]) == len(rows[0]["partitions"])
        for at, summary in enumerate(merged["partitions"]):
            bounds = [row["partitions"][at] for row in rows]
            lowers = {each["lower_bound"] for each in bounds}
            uppers = {each["upper_bound"] for each in bounds}
            assert summary["lower_bound"] in lowers
            assert summary["upper_bound"] in uppers
            assert summary["contains_null"] == any(each["contains_null"] for each in bounds)


def test_a_dry_run_writes_nothing(attic: AtticApp) -> None:
    before = attic.stored()
    result = rewrite(attic, "attic.shop.unreferenced", MergeManifests(1), dry_run=True)
    assert result.snapshot_id is None
    assert attic.stored() == before


def test_a_format_that_is_not_final_is_left_alone(attic: AtticApp) -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        rewrite(attic, "attic.odd.draft_v4", MergeManifests())


@pytest.mark.parametrize("status", [CommitStatus.CONFLICT, CommitStatus.UNKNOWN])
def test_what_a_lost_commit_wrote_is_removed_unless_it_may_have_landed(
    status: CommitStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attic = AtticApp(tmp_path, NOW_MS)
    before = attic.stored()
    opened = open_one

    def open_losing(*args: Any, **others: Any) -> Any:
        handle = opened(*args, **others)

        class Losing:
            name, load, expired_by = handle.name, handle.load, handle.expired_by

            def commit(self, *_: object) -> CommitOutcome:
                return CommitOutcome(status, reason="no answer")

        return Losing()

    monkeypatch.setattr(iceberg_rewrites, "open_table", open_losing)
    with pytest.raises(IncompleteError):
        rewrite(attic, "attic.shop.appends", MergeManifests())
    left = attic.stored() - before
    assert bool(left) == (status is CommitStatus.UNKNOWN)


def test_a_partition_of_dates_is_removed_without_reading_data(tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, NOW_MS)
    read = reader(attic)
    table = "attic.shop.cow"
    head = head_of(document_at(read, attic.files_of(table)[0]))
    assert head is not None
    files = live_files(read, head, 2)
    days = sorted({json.loads(each[4])["partition"] for each in files.values()})
    assert len(days) > 1, days
    last = days[-1].partition("(")[2].rstrip(")}").split(", ")
    moment = datetime(*map(int, last), tzinfo=UTC)  # type: ignore[misc,arg-type]
    result = rewrite(attic, table, ExpirePartitions("day", moment))
    after = document_at(read, str(result.metadata_after))
    new = head_of(after)
    assert new is not None
    kept = live_files(read, new, 2)
    assert {json.loads(each[4])["partition"] for each in kept.values()} == {days[-1]}
    assert result.figures["removed"] == len(files) - len(kept)
    assert {name: files[name] for name in kept} == kept
    assert new["summary"]["operation"] == "delete"
    assert int(new["summary"]["total-data-files"]) == len(kept)
    again = rewrite(attic, table, ExpirePartitions("day", moment))
    assert again.snapshot_id is None


def test_a_column_without_age_is_refused(attic: AtticApp) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for column, why in (("id", "has no age"), ("nothing", "no column")):
        with pytest.raises(UsageError, match=why):
            rewrite(attic, "attic.shop.cow", ExpirePartitions(column, moment), dry_run=True)


def test_specs_without_the_column_are_judged_by_bounds(tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, NOW_MS)
    late = datetime(2100, 1, 1, tzinfo=UTC)
    result = rewrite(attic, "attic.shop.specs", ExpirePartitions("ts", late), dry_run=True)
    figures = result.figures
    kept = figures["kept_in_part"] + figures["kept_null"] + figures["kept_unknown"]
    assert figures["removed"] + kept == figures["data_files"]
    assert figures["removed"] > 0


@pytest.mark.parametrize("table", ["attic.shop.mor", "attic.shop.vectors", "attic.shop.equality"])
def test_only_deletes_that_apply_to_nothing_are_dropped(table: str, tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, NOW_MS)
    read = reader(attic)
    path = attic.files_of(table)[0]
    before = document_at(read, path)
    head = head_of(before)
    assert head is not None
    result = rewrite(attic, table, RemoveDanglingDeletes())
    if result.metadata_after is None:
        assert result.figures["dangling"] == 0
        return
    new = head_of(document_at(read, result.metadata_after))
    assert new is not None
    files, kept = (live_files(read, each, before["format-version"]) for each in (head, new))
    assert kept.items() <= files.items()
    assert len(files) - len(kept) == result.figures["dangling"]
