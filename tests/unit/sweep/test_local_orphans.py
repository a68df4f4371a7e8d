"""Deleting orphans in this process leaves a plan, a run and outcomes, and only under the lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import LeaseHeldError, UnavailableError
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.model.warehouse import FailedTable
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, plan_orphans
from lakesweep.runs.fencing import request_stop
from lakesweep.runs.records import PlanStatus, RunKind, RunRecord, RunStatus, run_folder
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import run_session
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault, fail
from lakesweep.sweep.apply.deletion import outcome_parts, read_outcomes
from lakesweep.sweep.local_orphans import OrphanRemover, orphan_lake
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from lakesweep.sweep.verdicts import Verdict
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import ROOT, ListedStore, in_memory, open_table
from tests.paimon_orphans import CUT, run_log

PLANS = "memory://local-orphans/plans"
BASE = "memory://bucket/"


@dataclass
class Cleaning:
    """One table in memory, and the log of runs."""

    store: ListedStore
    clock: ManualClock = field(default_factory=lambda: ManualClock(CUT + timedelta(days=1)))

    def __post_init__(self) -> None:
        self.runs: RunLog = run_log(self.clock)
        self.stores = Stores(replace={ROOT: self.store})
        self.outcome = OrphanOutcome()

    def clean(self, store: ObjectStore | None = None) -> list[FailedTable]:
        table = open_table(store or self.store, self.clock.now())
        with self.outcome.outcomes, plan_orphans(TableGroup((table,)), CUT) as plan:
            remover = OrphanRemover(
                table.stores, lambda: self.runs, self.clock, PLANS, ROOT, DeleteRate()
            )
            return list(remover.remove([plan], self.outcome))

    @property
    def lake(self) -> str:
        return orphan_lake(ROOT, PLANS, (ROOT,)).name

    @property
    def run(self) -> RunRecord:
        return next(self.runs.list(self.lake))

    @property
    def plan(self) -> StoredPlan:
        return open_plan(self.stores, self.runs, str(self.run.plan))

    def planned(self) -> set[str]:
        rows = self.plan.rows(Verdict.DELETE)
        return {path.removeprefix(BASE) for batch in rows for path in batch["path"].to_pylist()}


@pytest.fixture
def cleaning(java_tables: JavaWarehouses) -> Cleaning:
    return Cleaning(in_memory(java_tables.table("pk_dv")))


def on_first_delete(do: Callable[[], object]) -> StorageFault:
    def act(call: InterceptedCall) -> object:
        do()
        return call.proceed()

    return StorageFault(act, frozenset({"delete"}), times=1)


def test_a_run_leaves_its_plan_and_its_outcomes(cleaning: Cleaning) -> None:
    before = set(cleaning.store.current())
    assert not cleaning.clean()
    gone = before - set(cleaning.store.current())
    assert gone == cleaning.planned()
    run, plan = cleaning.run, cleaning.plan
    assert (run.kind, run.status) == (RunKind.APPLY, RunStatus.DONE)
    assert run.figures["deleted"] == len(gone) == plan.document.amount("delete").files
    assert plan.record.status is PlanStatus.APPLIED
    parts = outcome_parts(cleaning.stores, f"{plan.record.address}/outcomes")
    rows = [batch for part in parts for batch in read_outcomes(cleaning.stores, part, ["path"])]
    assert {path for batch in rows for path in batch["path"].to_pylist()} == {
        BASE + key for key in gone
    }


def test_the_plan_is_stored_and_the_lease_held_before_the_first_delete(cleaning: Cleaning) -> None:
    seen: list[set[str]] = []

    def look() -> None:
        assert cleaning.run.status is RunStatus.RUNNING
        with (
            pytest.raises(LeaseHeldError),
            run_session(cleaning.runs, cleaning.lake, RunKind.APPLY, spec={}),
        ):
            pass
        seen.append(cleaning.planned())

    before = set(cleaning.store.current())
    assert not cleaning.clean(Faulty(cleaning.store, [on_first_delete(look)]))
    assert seen == [before - set(cleaning.store.current())]


def test_nothing_is_deleted_while_another_run_has_the_lease(cleaning: Cleaning) -> None:
    before = cleaning.store.current()
    with (
        run_session(cleaning.runs, cleaning.lake, RunKind.APPLY, spec={}),
        pytest.raises(LeaseHeldError),
    ):
        cleaning.clean()
    assert cleaning.store.current() == before


def test_a_run_that_is_told_to_stop_ends_before_its_next_batch(
    cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesweep.sweep.apply.deletion._FIRST_ROWS", 1)

    def stop() -> None:
        folder = run_folder(cleaning.plan.record.address, cleaning.run.run)
        request_stop(cleaning.stores, folder)

    (failure,) = cleaning.clean(Faulty(cleaning.store, [on_first_delete(stop)]))
    assert "was told to stop" in failure.error.message
    assert cleaning.outcome.tally.deleted == 1
    assert cleaning.run.status is RunStatus.STOPPED
    assert cleaning.plan.record.status is PlanStatus.APPLYING


def test_owners_are_read_before_every_batch(
    cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between two batches keeps the files that it brings back."""
    monkeypatch.setattr("lakesweep.sweep.apply.deletion._FIRST_ROWS", 1)
    number = open_table(cleaning.store).main.latest_id()
    newest = f"t/snapshot/snapshot-{number}"
    data = cleaning.store.read(newest)
    cleaning.store.delete([newest])
    cleaning.store.write("t/snapshot/LATEST", str((number or 0) - 1).encode())
    fault = on_first_delete(lambda: cleaning.store.write(newest, data))
    assert not cleaning.clean(Faulty(cleaning.store, [fault]))
    assert cleaning.outcome.spared
    assert cleaning.run.figures["kept_by_remark"] == cleaning.outcome.spared


def test_deletes_that_fail_make_the_run_incomplete(cleaning: Cleaning) -> None:
    fault = StorageFault(fail(UnavailableError), frozenset({"delete"}), times=1)
    assert not cleaning.clean(Faulty(cleaning.store, [fault]))
    assert cleaning.run.status is RunStatus.INCOMPLETE
    assert cleaning.run.figures["failed"] == cleaning.outcome.tally.failed > 0


def test_where_there_are_no_orphans_no_store_is_needed(cleaning: Cleaning) -> None:
    assert not cleaning.clean()
    table = open_table(cleaning.store, cleaning.clock.now())

    def no_store() -> RunLog:
        raise AssertionError("opened")

    outcome = OrphanOutcome()
    with outcome.outcomes, plan_orphans(TableGroup((table,)), CUT) as plan:
        remover = OrphanRemover(table.stores, no_store, cleaning.clock, PLANS, ROOT, DeleteRate())
        assert not remover.remove([plan], outcome)
