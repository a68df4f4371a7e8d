"""Approve or reject a plan that waits for a person. Each decision is a commit in the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.errors import RefusedError
from lakesweep.runs.records import (
    Approval,
    ApprovalState,
    PlanRecord,
    command_prefix,
)
from lakesweep.runs.sessions import user_name
from lakesweep.sweep.apply.unattended_limits import standing_guards
from lakesweep.sweep.guards import CONFIRMED, Guard, check_plan_age, refuse
from lakesweep.sweep.plan.document import PlanDocument, load_plan
from lakesweep.sweep.plan.stored_plan import find_plan


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Decide about a plan, by its name or the newest one of a lake.

    `by` is the person; by default the user of this process. Guards that doubt what is live cannot
    be approved away: they need `overridden`.
    """

    plan: str
    why: str = ""
    by: str | None = None
    overridden: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a plan. `overridden` are the guards that were accepted with it."""

    plan: str
    lake: str
    state: ApprovalState
    by: str
    at: datetime
    why: str
    reasons: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: PlanRecord, approval: Approval) -> Decision:
        """The decision that a plan's record holds."""
        return cls(
            plan=plan.plan,
            lake=plan.lake,
            state=approval.state,
            by=approval.by,
            at=moment(approval.at),
            why=approval.why,
            reasons=approval.reasons,
            overridden=approval.overridden,
        )


def approve_plan(app: App, request: DecisionRequest) -> Decision:
    """Let an unattended sweep apply a plan.

    Guards that ask for a look count as seen. RefusedError if another one stands, or the plan has
    expired, or its lake is never applied unattended.
    """
    record = find_plan(app.runs, request.plan)
    if app.lakes.of_plan(record).section.limits.apply == "never":
        raise RefusedError(
            "limits",
            f"{record.lake} is never applied unattended: its limits say apply = 'never'",
            hint=f"{command_prefix(record.lake)} apply {record.plan}",
        )
    document = load_plan(app.stores, record)
    again = f"{command_prefix(record.lake)} approve {record.plan}"
    guards = [*_guards(app, record, document), *check_plan_age(app.clock.now(), document.expires)]
    doubts = [guard for guard in guards if guard.name not in CONFIRMED]
    refuse(doubts, request.overridden, record.plan, command_prefix(record.lake), again)
    accepted = {guard.name for guard in guards if not guard.subjects} | {*request.overridden}
    return _decide(app, record, request, ApprovalState.APPROVED, tuple(sorted(accepted)))


def reject_plan(app: App, request: DecisionRequest) -> Decision:
    """Never apply a plan. RefusedError without a reason."""
    check_reason(request)
    record = find_plan(app.runs, request.plan)
    return _decide(app, record, request, ApprovalState.REJECTED, ())


def check_reason(request: DecisionRequest) -> None:
    """RefusedError if a plan would be rejected without a reason."""
    if not request.why.strip():
        raise RefusedError(
            "confirmation",
            "a plan is rejected with a reason, for those who look at it later",
            hint=f"lakesweep reject {request.plan} --why 'REASON'",
        )


def await_approval(app: App, plan: str, reasons: tuple[str, ...]) -> Decision:
    """Record that a plan waits for a person."""
    approval = Approval(
        state=ApprovalState.WAITING, at=micros(app.clock.now()), by=user_name(), reasons=reasons
    )
    return Decision.of(app.runs.decide(plan, approval), approval)


def _guards(app: App, record: PlanRecord, document: PlanDocument) -> Iterator[Guard]:
    """The guards about the whole lake; those about a table or a root withhold its files."""
    lake = app.lakes.of_plan(record)
    for guard in standing_guards(document, lake, app.clock.now()):
        if not guard.subjects:
            yield guard


def _decide(
    app: App,
    record: PlanRecord,
    request: DecisionRequest,
    state: ApprovalState,
    overridden: tuple[str, ...],
) -> Decision:
    before = record.approval
    approval = Approval(
        state=state,
        at=micros(app.clock.now()),
        by=request.by or user_name(),
        why=request.why.strip(),
        reasons=() if before is None else before.reasons,
        overridden=overridden,
    )
    return Decision.of(app.runs.decide(record.plan, approval), approval)
