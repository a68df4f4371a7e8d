"""Look at a stored plan: its document and state, its files, and its report page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.operations.lakes.repositories import plan_or_lake
from lakesweep.sweep.inspect.report import render_report
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, check_kind
from lakesweep.sweep.plan.stored_plan import PlanState, StoredPlan, open_plan
from lakesweep.sweep.verdicts import Reason, Verdict


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
    found = open_plan(app.stores, app.runs, name)
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
    return plan.rows(request.verdict, reason=request.reason, table=request.table)


def plan_page(view: PlanView) -> str:
    """The plan as one HTML page with charts."""
    return render_report(view, view.state)
