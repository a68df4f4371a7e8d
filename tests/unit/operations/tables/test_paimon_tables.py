"""Expire and drop parts of Paimon tables, without a command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.errors import RefusedError, UsageError
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.tables.paimon_expiry import (
    ExpireSnapshotsRequest,
    ExpiryPreview,
    expire_snapshots,
)
from lakesweep.operations.tables.paimon_partitions import (
    DropPartitionsRequest,
    ExpirePartitionsRequest,
    PartitionsPreview,
    drop_partitions,
    expire_partitions,
)
from lakesweep.operations.tables.paimon_tables import PaimonFilesRequest, paimon_files
from lakesweep.paimon.expire.retention import RetentionOverrides
from tests.paimon import JavaTable, JavaWarehouses

KEEP_ONE = RetentionOverrides(retain_min=1, retain_max=1)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(Config(), folder=tmp_path)


@pytest.fixture
def table(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    return java_tables.table("append_plain").copy_to(tmp_path)


@pytest.fixture
def days(java_tables: JavaWarehouses, tmp_path: Path) -> JavaTable:
    return java_tables.table("append_dt").copy_to(tmp_path)


def refuse(preview: ExpiryPreview | PartitionsPreview) -> None:
    raise RefusedError("confirmation", f"{type(preview).__name__} is refused")


def agree(preview: ExpiryPreview | PartitionsPreview) -> None:
    del preview


def test_an_expiry_reports_its_policy_and_deletes_what_it_previewed(
    app: App, table: JavaTable
) -> None:
    notices: list[str] = []
    previews: list[ExpiryPreview] = []
    request = ExpireSnapshotsRequest(table=str(table.folder), retention=KEEP_ONE)
    io = Interaction(notify=notices.append)
    result = expire_snapshots(app, request, previews.append, io)
    assert "keeps at least 1 and at most 1 snapshots" in notices[0]
    assert result.deleted == previews[0].planned.deleted
    assert result.is_complete
    assert (result.earliest, result.dry_run) == (result.latest, False)


def test_nothing_expires_when_the_caller_refuses(app: App, table: JavaTable) -> None:
    before = table.stored()
    request = ExpireSnapshotsRequest(table=str(table.folder), retention=KEEP_ONE)
    with pytest.raises(RefusedError, match="ExpiryPreview"):
        expire_snapshots(app, request, refuse)
    assert table.stored() == before


def test_the_files_of_a_dry_run_can_be_read_while_it_is_confirmed(
    app: App, table: JavaTable
) -> None:
    before, paths = table.stored(), set[str]()

    def read(preview: ExpiryPreview) -> None:
        for batch in preview.batches():
            paths.update(batch["path"].to_pylist())

    request = ExpireSnapshotsRequest(table=str(table.folder), retention=KEEP_ONE, dry_run=True)
    planned = expire_snapshots(app, request, read)
    assert len(paths) == sum(planned.deleted.values()) > 0
    assert table.stored() == before


def test_no_caller_can_expire_a_table_that_shares_files_with_a_copy(
    app: App, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    original = tmp_path / "w" / "a.db" / "one"
    shutil.copytree(java_tables.table("append_plain").folder, original)
    for path in (original / "schema").glob("schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["data-file.external-paths"] = f"file://{tmp_path}/out"
        path.chmod(0o600)
        path.write_text(json.dumps(schema))
    shutil.copytree(original, tmp_path / "w" / "b.db" / "copy")
    request = ExpireSnapshotsRequest(table=str(original), retention=KEEP_ONE)
    with pytest.raises(RefusedError, match="one is a copy of the other"):
        expire_snapshots(app, request, agree)


def _lock(table: JavaTable) -> None:
    schema = table.folder / "schema" / "schema-0"
    text = schema.read_text()
    schema.write_text(text.replace('"options" : {', '"options" : {"lock.enabled": "true",'))


def _drop(app: App, table: JavaTable) -> None:
    drop_partitions(app, DropPartitionsRequest(str(table.folder), ("dt=2021-03-01",)), agree)


def _expire(app: App, table: JavaTable) -> None:
    request = ExpirePartitionsRequest(str(table.folder), keep=timedelta(days=30))
    expire_partitions(app, request, agree)


@pytest.mark.parametrize("drop", [_drop, _expire])
def test_no_caller_can_commit_to_a_table_that_others_lock(
    app: App, days: JavaTable, drop: Callable[[App, JavaTable], None]
) -> None:
    _lock(days)
    before = days.stored()
    with pytest.raises(RefusedError, match="are locked by"):
        drop(app, days)
    assert days.stored() == before


def test_no_partition_is_dropped_when_the_caller_refuses(app: App, days: JavaTable) -> None:
    before = days.stored()
    request = DropPartitionsRequest(str(days.folder), ("dt=2021-03-01",))
    with pytest.raises(RefusedError, match="PartitionsPreview"):
        drop_partitions(app, request, refuse)
    assert days.stored() == before


def test_partitions_without_a_time_are_reported(app: App, days: JavaTable) -> None:
    notices: list[str] = []
    request = ExpirePartitionsRequest(str(days.folder), keep=timedelta(days=30), dry_run=True)
    result = expire_partitions(app, request, agree, Interaction(notify=notices.append))
    assert [notice.partition(" ")[0] for notice in notices] == [
        "dt=__DEFAULT_PARTITION__",
        "dt=not-a-date",
    ]
    assert [each.partition for each in result.partitions if each.time is None] == [
        "dt=__DEFAULT_PARTITION__",
        "dt=not-a-date",
    ]


def test_one_state_is_never_read_tolerantly(app: App, table: JavaTable) -> None:
    with pytest.raises(UsageError, match="--tolerant"):
        paimon_files(app, PaimonFilesRequest(str(table.folder), snapshot=1, tolerant=True))
