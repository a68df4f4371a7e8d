"""Expiries as stored plans: shown, explained, carried out once, and undone from quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.errors import DamagedError, NotFoundError, RefusedError
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, ApplyPreview, apply_plan
from lakesweep.operations.lakes.explain import explain_file
from lakesweep.operations.lakes.plan_view import PlanFilesRequest, plan_files, view_plan
from lakesweep.operations.lakes.quarantine import (
    EmptyQuarantineRequest,
    empty_quarantine,
    list_quarantines,
    restore_quarantine,
)
from lakesweep.operations.upkeep.expiry_plans import (
    details_of,
    plan_expiry,
    quarantine_tables,
)
from lakesweep.operations.upkeep.expiry_result import ExpireTablesRequest
from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable
from lakesweep.storage.address import identity
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.plan.document import PlanDocument, PlanKind
from lakesweep.sweep.plan.stored_plan import PlanState
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.expired_table import ALL_OLD, REF, ExpiredTable
from tests.iceberg_expiries import AtticApp, agree
from tests.unit.operations.upkeep.test_iceberg_expiry import case_named
from tests.unit.upkeep.test_file_index import deletable
from tests.unit.upkeep.test_snapshot_retention import arguments_of

CASE = case_named("attic.shop.cow.head-only")


def allow(preview: object) -> None:
    """Agree to everything."""


@pytest.fixture
def attic(tmp_path: Path) -> AtticApp:
    return AtticApp(tmp_path, CASE.now_ms)


def made(attic: AtticApp, arguments: RetentionArguments | None = None) -> PlanDocument:
    terms = ExpiryTerms(arguments or arguments_of(CASE))
    return plan_expiry(attic.app, CASE.table, ExpireTablesRequest(refs=(CASE.table,), terms=terms))


def test_a_plan_is_stored_with_its_files_and_changes_nothing(attic: AtticApp) -> None:
    before = attic.stored()
    plan = made(attic)
    assert attic.stored() == before
    view = view_plan(attic.open(), plan.plan, PlanKind.EXPIRY)
    assert view.state is PlanState.READY
    assert view.amount("delete").files == len(deletable(CASE))
    request = PlanFilesRequest(plan.plan, PlanKind.EXPIRY)
    paths = {path for batch in plan_files(attic.app, request) for path in batch["path"].to_pylist()}
    assert {identity(path) for path in paths} == deletable(CASE)
    found = details_of(view).found
    assert found.expired_snapshots == CASE.answer["snapshots_removed"]
    assert any(line.bytes for line in found.snapshots or ())


def test_an_explanation_names_the_snapshots_that_reach_a_file(attic: AtticApp) -> None:
    plan = made(attic).plan
    request = PlanFilesRequest(plan, PlanKind.EXPIRY)
    (batch, *_) = plan_files(attic.app, request)
    goes = explain_file(attic.app, plan, batch["path"][0].as_py())
    assert goes.verdict == "delete"
    assert all("expires" in line for line in goes.evidence)
    result = attic.expire(CASE.table, arguments_of(CASE), dry_run=True)
    stays = next(
        path
        for path in sorted(attic.stored())
        if "/cow/" in path and "/data/" in path and identity(path) not in deletable(CASE)
    )
    kept = explain_file(attic.app, plan, stays)
    assert kept.verdict == "keep"
    assert f"snapshot {result.retained_snapshots[-1]}" in " ".join(kept.evidence)
    with pytest.raises(NotFoundError, match="no snapshot"):
        explain_file(attic.app, plan, "s3://attic/elsewhere")


def test_a_plan_is_applied_once(attic: AtticApp) -> None:
    plan, before = made(attic).plan, attic.stored()
    previews: list[ApplyPreview] = []
    result = apply_plan(attic.open(), ApplyPlanRequest(plan), previews.append)
    assert result.deleted == previews[0].files == len(deletable(CASE))
    assert {identity(path) for path in before - attic.stored()} == deletable(CASE)
    assert view_plan(attic.app, plan, PlanKind.EXPIRY).state is PlanState.APPLIED
    with pytest.raises(RefusedError, match="applied once"):
        apply_plan(attic.app, ApplyPlanRequest(plan), allow)


def test_a_plan_that_was_changed_or_is_too_old_is_not_applied(attic: AtticApp) -> None:
    plan, before = made(attic).plan, attic.stored()
    attic.clock.sleep(timedelta(hours=25).total_seconds())
    with pytest.raises(RefusedError, match="expired"):
        apply_plan(attic.app, ApplyPlanRequest(plan), allow)
    (file,) = attic.folder.rglob(f"{plan}/plan.json")
    file.write_bytes(file.read_bytes().replace(b"cow", b"cov", 1))
    with pytest.raises(DamagedError):
        apply_plan(attic.app, ApplyPlanRequest(plan), allow)
    assert attic.stored() == before


def test_an_apply_expires_no_more_than_the_plan_showed(attic: AtticApp) -> None:
    """All of the history is due by now, but only one snapshot was when the plan was made."""
    arguments = replace(arguments_of(CASE), limit=1)
    plan = made(attic, arguments)
    (shown,) = details_of(plan).found.expired_snapshots
    result = apply_plan(attic.app, ApplyPlanRequest(plan.plan), allow)
    left = attic.expire(CASE.table, arguments_of(CASE), dry_run=True)
    assert shown not in left.expired_snapshots
    assert set(left.expired_snapshots) == set(CASE.answer["snapshots_removed"]) - {shown}
    assert result.failed == 0


def test_an_apply_keeps_the_floors_of_its_plan(tmp_path: Path) -> None:
    """The table was rolled back since: what was behind the newest three is among them now."""
    table = ExpiredTable.write(tmp_path)
    terms = ExpiryTerms(replace(ALL_OLD, floor_keep=3, max_ref_age_ms=2**40))
    request = ExpireTablesRequest(refs=(REF,), terms=terms)
    plan, before = plan_expiry(table.app(), REF, request), table.snapshots()
    details = details_of(plan)
    assert details.found.expired_snapshots == before[:3]
    assert replace(details.terms.retention, planned=None) == terms.retention
    table.table.manage_snapshots().rollback_to_snapshot(before[2]).commit()
    apply_plan(table.app(), ApplyPlanRequest(plan.plan), allow)
    assert table.snapshots() == before


def test_a_plan_is_applied_on_the_engine_that_is_named(attic: AtticApp) -> None:
    used = list[str]()

    @contextmanager
    def engine(name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        used.append(name)
        yield LocalSweepEngine(attic.app.stores)

    attic.app.__dict__["engine"] = engine
    wanted = ApplyPlanRequest(made(attic).plan, engine=EngineName.SPARK)
    assert apply_plan(attic.app, wanted, allow).deleted
    assert used == ["spark"]


def test_what_became_protected_since_stays(attic: AtticApp) -> None:
    plan, before = made(attic).plan, attic.stored()
    attic.expire(CASE.table, arguments_of(CASE))
    result = apply_plan(attic.app, ApplyPlanRequest(plan), allow)
    assert result.deleted == 0
    assert result.kept_by_remark == len(deletable(CASE))
    assert {identity(path) for path in before - attic.stored()} == deletable(CASE)


def test_quarantined_files_can_be_restored_and_emptied(attic: AtticApp) -> None:
    before = attic.stored()
    terms = ExpiryTerms(arguments_of(CASE))
    request = ExpireTablesRequest(refs=(CASE.table,), terms=terms)
    (result,) = quarantine_tables(attic.app, request, agree)
    assert not isinstance(result, UnexpiredTable)
    assert result.deleted == {}
    assert sum((result.quarantined or {}).values()) == len(deletable(CASE))
    assert {identity(path) for path in before - attic.stored()} == deletable(CASE)
    (held,) = list_quarantines(attic.app).held
    assert held.files == len(deletable(CASE))
    restored = restore_quarantine(attic.open(), held.plan)
    assert restored.restored == len(deletable(CASE))
    assert before <= attic.stored()


def test_a_plan_is_not_applied_once_files_were_restored(attic: AtticApp) -> None:
    """Its metadata is registered again, so that the table needs the files."""
    catalog = attic.folder / "catalog.db"
    pointers, before = catalog.read_bytes(), attic.stored()
    older = made(attic).plan
    terms = ExpiryTerms(arguments_of(CASE))
    request = ExpireTablesRequest(refs=(CASE.table,), terms=terms)
    (result,) = quarantine_tables(attic.app, request, agree)
    assert not isinstance(result, UnexpiredTable)
    restore_quarantine(attic.open(), str(result.plan))
    catalog.write_bytes(pointers)
    with pytest.raises(RefusedError, match="files were restored") as refused:
        apply_plan(attic.open(), ApplyPlanRequest(older), allow)
    assert refused.value.guard == "stale-plan"
    assert before <= attic.stored()
    attic.app = attic.open()
    assert apply_plan(attic.app, ApplyPlanRequest(made(attic).plan), allow).deleted


def test_a_quarantine_is_emptied_by_asking_all_roots(attic: AtticApp) -> None:
    terms = ExpiryTerms(arguments_of(CASE))
    request = ExpireTablesRequest(refs=(CASE.table,), terms=terms)
    (result,) = quarantine_tables(attic.app, request, agree)
    assert not isinstance(result, UnexpiredTable)
    emptied = empty_quarantine(
        attic.open(), EmptyQuarantineRequest(str(result.plan), EngineName.LOCAL), allow
    )
    assert emptied.is_complete  # type: ignore[union-attr]
    assert not any("quarantine" in path for path in attic.stored())
