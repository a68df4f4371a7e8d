"""Look at a stored plan: its document and state, its files, and its report page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import NotFoundError
from lakesweep.operations.lakes.repositories import plan_or_lake
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.inspect.report import render_report
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, check_kind
from lakesweep.sweep.plan.stored_plan import PlanState, StoredPlan, open_plan
from lakesweep.sweep.verdicts import Reason, Verdict

#: The dataset of a lifecycle plan with the paths of what it deletes.
_ADDRESSES = "addresses"


class PlanView(PlanDocument, frozen=True, kw_only=True):
    """A plan and its state now; `run` is the last run that applied it."""

    state: PlanState
    run: str | None


@dataclass(frozen=True, slots=True)
class PlanFilesRequest:
    """Files of a plan, by verdict, reason and the table whose folder they are in."""

    plan: str
    kind: PlanKind = PlanKind.SWEEP
    verdict: Verdict | None = None
    reason: Reason | None = None
    table: str | None = None


def find_plan(app: App, name: str, kind: PlanKind = PlanKind.SWEEP) -> StoredPlan:
    """A plan by its name, or the newest of a lake or repository; UsageError for another kind."""
    name = plan_or_lake(app, name) if kind is PlanKind.LIFECYCLE else name
    found = open_plan(app.stores, app.known_runs, name)
    check_kind(found.document, kind)
    return found


def view_plan(app: App, name: str, kind: PlanKind = PlanKind.SWEEP) -> PlanView:
    """The document of a plan with its state."""
    plan = find_plan(app, name, kind)
    fields = msgspec.structs.asdict(plan.document)
    return PlanView(**fields, state=plan.state(app.clock.now()), run=plan.record.run)


def plan_files(app: App, request: PlanFilesRequest) -> Iterator[pa.RecordBatch]:
    """Stream the verdicts of a plan, those to delete first."""
    plan = find_plan(app, request.plan, request.kind)
    if request.table is not None:
        _check_table(plan, request.table)
    return plan.rows(request.verdict, reason=request.reason, table=request.table)


def _check_table(plan: StoredPlan, table: str) -> None:
    """NotFoundError if no file of a plan is in the folder of a table of this name."""
    # The document names the largest tables only; the others are found by their first file.
    named = any(each.get("table") == table for each in plan.document.tables)
    if not named and not any(batch.num_rows for batch in plan.rows(table=table)):
        raise NotFoundError(
            f"plan {plan.record.plan} has no file of a table {table}",
            hint=f"lakesweep show {plan.record.plan} lists the tables",
        )


class ExpiredPaths(msgspec.Struct, frozen=True):
    """An object that a lifecycle plan deletes, with all paths it ever had, and rules on each."""

    address: str
    paths: tuple[str, ...]
    matched_rules: tuple[str, ...]
    size_bytes: int | None
    waits_for_heads: bool


def expired_paths(app: App, name: str) -> Iterator[ExpiredPaths]:
    """Stream the objects that a lifecycle plan deletes, by paths of the repository."""
    plan = find_plan(app, name, PlanKind.LIFECYCLE)
    if _ADDRESSES not in plan.document.datasets:
        raise NotFoundError(
            f"{plan.document.plan} was made by an earlier version, without paths",
            hint="plan again",
        )
    fields = list(ExpiredPaths.__struct_fields__)
    for batch in read_dataset(plan.stores, plan.dataset(_ADDRESSES), fields):
        yield from (msgspec.convert(row, ExpiredPaths) for row in batch.to_pylist())


def plan_page(view: PlanView) -> str:
    """The plan as one HTML page with charts."""
    return render_report(view, view.state)
