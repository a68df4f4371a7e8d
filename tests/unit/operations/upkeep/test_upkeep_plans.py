"""Rewrites and trims as stored plans: shown, explained, carried out once, and no more than said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.render.outcome_tables import preview_lines, question_of
from lakesweep.errors import NotFoundError, RefusedError, UsageError
from lakesweep.operations.interaction import Interaction
from lakesweep.operations.lakes.apply import (
    ApplyPlanRequest,
    ApplyPlanResult,
    ApplyPreview,
    apply_plan,
)
from lakesweep.operations.lakes.explain import explain_file
from lakesweep.operations.lakes.plan_view import PlanFilesRequest, plan_files, view_plan
from lakesweep.operations.lakes.quarantine import restore_quarantine
from lakesweep.operations.upkeep.iceberg_rewrites import (
    ExpirePartitions,
    MergeManifests,
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    RewriteTask,
)
from lakesweep.operations.upkeep.iceberg_trim import TrimTablesRequest
from lakesweep.operations.upkeep.upkeep_plans import (
    RewriteDetails,
    TrimDetails,
    plan_rewrite,
    plan_trim,
    upkeep_details,
)
from lakesweep.sweep.plan.document import PlanKind
from lakesweep.sweep.plan.stored_plan import PlanState
from tests.unit.operations.upkeep.test_upkeep_of_pyiceberg_tables import NAME, Lake, rows

OLD = ExpirePartitions("day", datetime(2026, 1, 3, tzinfo=UTC))


def agree(preview: object) -> None:
    """Agree to everything."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    table = lake.create(**{"write.metadata.previous-versions-max": "1"})
    for day in range(4):
        table.append(rows(day))
    return lake


def planned(lake: Lake, task: RewriteTask) -> str:
    request = RewriteTablesRequest(refs=(NAME,), task=task)
    return plan_rewrite(lake.app, NAME, request).plan


def named(lake: Lake, plan: str) -> list[str]:
    batches = plan_files(lake.app, PlanFilesRequest(plan, PlanKind.EXPIRY))
    return [path for batch in batches for path in batch["path"].to_pylist()]


def carried_out(lake: Lake, plan: str, **how: Any) -> tuple[ApplyPlanResult, list[str]]:
    said: list[str] = []
    io = Interaction(notify=said.append)
    return apply_plan(lake.app, ApplyPlanRequest(plan, **how), agree, io), said


@pytest.mark.parametrize("task", [MergeManifests(), RemoveDanglingDeletes(), OLD], ids=str)
def test_a_rewrite_is_planned_shown_and_applied_once(lake: Lake, task: RewriteTask) -> None:
    before = lake.table.metadata_location
    plan = planned(lake, task)
    assert lake.table.metadata_location == before
    view = view_plan(lake.app, plan, PlanKind.EXPIRY)
    assert view.state is PlanState.READY
    details = upkeep_details(view)
    assert isinstance(details, RewriteDetails)
    assert details.rewrite == task
    result, said = carried_out(lake, plan)
    assert (result.deleted, result.failed) == (0, 0)
    assert (lake.table.metadata_location != before) == details.found.changes
    assert ("committed snapshot" in said[0]) == details.found.changes
    assert view_plan(lake.app, plan, PlanKind.EXPIRY).state is PlanState.APPLIED
    with pytest.raises(RefusedError, match="applied once"):
        carried_out(lake, plan)


def test_a_rewrite_asks_for_a_commit_and_not_for_deletes(lake: Lake) -> None:
    plan = planned(lake, OLD)
    assert plan.startswith("expire-partitions-")
    seen: list[ApplyPreview] = []
    apply_plan(lake.app, ApplyPlanRequest(plan, dry_run=True), seen.append)
    apply_plan(lake.app, ApplyPlanRequest(plan), seen.append)
    for preview in seen:
        assert question_of(preview) == "commit the result of expire-partitions?"
        (line,) = preview_lines(preview)
        assert line.endswith("expire-partitions commits a new snapshot and deletes no file")


def test_no_file_leaves_the_table_that_the_plan_does_not_name(lake: Lake) -> None:
    plan = planned(lake, OLD)
    assert len(named(lake, plan)) == 2
    lake.table.append(rows(1, 2))  # old days again, written after the plan
    carried_out(lake, plan)
    days = sorted(row["id"] for row in lake.table.scan().to_arrow().to_pylist())
    assert days == [1, 2, 2, 3]


def test_files_that_leave_the_table_are_explained(lake: Lake) -> None:
    plan = planned(lake, OLD)
    path = named(lake, plan)[0]
    found = explain_file(lake.app, plan, path)
    assert found.verdict == "keep"
    assert "leaves the current snapshot" in found.evidence[0]
    with pytest.raises(NotFoundError, match="does not concern"):
        explain_file(lake.app, plan, f"{path}x")
    with pytest.raises(UsageError, match="deletes no file"):
        carried_out(lake, plan, quarantine=True)


def planned_trim(lake: Lake) -> str:
    request = TrimTablesRequest(refs=(NAME,), grace=timedelta(0))
    return plan_trim(lake.app, NAME, request).plan


def stored_metadata(lake: Lake) -> set[str]:
    folder = Path(lake.table.metadata_location.removeprefix("file://")).parent
    return {each.name for each in folder.glob("*.metadata.json")}


def test_a_trim_deletes_the_planned_files_and_no_later_ones(lake: Lake) -> None:
    before = stored_metadata(lake)
    plan = planned_trim(lake)
    assert isinstance(upkeep_details(view_plan(lake.app, plan, PlanKind.EXPIRY)), TrimDetails)
    files = named(lake, plan)
    assert files
    assert stored_metadata(lake) == before
    found = explain_file(lake.app, plan, files[0])
    assert (found.reason, plan.startswith("trim-metadata-")) == ("unreferenced", True)
    assert "log names" in found.evidence[0]
    for day in (5, 6):  # the log moves on: more files are behind it now
        lake.table.append(rows(day))
    between = stored_metadata(lake)
    result, _ = carried_out(lake, plan)
    assert result.deleted == len(files)
    assert between - stored_metadata(lake) == {Path(each).name for each in files}
    assert len(lake.read()) == 6


def test_trimmed_files_can_be_restored_from_quarantine(lake: Lake) -> None:
    before = stored_metadata(lake)
    plan = planned_trim(lake)
    files = named(lake, plan)
    result, _ = carried_out(lake, plan, quarantine=True)
    assert (result.deleted, result.quarantined) == (0, len(files))
    assert before - stored_metadata(lake) == {Path(each).name for each in files}
    assert restore_quarantine(lake.app, plan).restored == len(files)
    assert stored_metadata(lake) == before


@pytest.mark.parametrize("task", [MergeManifests(), OLD, None], ids=str)
def test_no_plan_is_applied_once_files_were_restored(lake: Lake, task: RewriteTask | None) -> None:
    set_aside = planned_trim(lake)
    older = planned_trim(lake) if task is None else planned(lake, task)
    carried_out(lake, set_aside, quarantine=True)
    restore_quarantine(lake.app, set_aside)
    before, files = lake.table.metadata_location, stored_metadata(lake)
    with pytest.raises(RefusedError, match="files were restored") as refused:
        carried_out(lake, older)
    assert refused.value.guard == "stale-plan"
    assert refused.value.hint == f"run the lakesweep iceberg command for {NAME} again, with --plan"
    assert lake.table.metadata_location == before
    assert stored_metadata(lake) == files
