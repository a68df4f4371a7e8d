"""Sweep a lake or a repository without a person: plan it, then apply what its limits allow.

A plan that an earlier sweep made and that was approved since is applied first. A plan beyond the
limits is stored, and waits for approval until it expires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.errors import NotFoundError
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction
from lakesweep.operations.lakes.apply import (
    ApplyPlanRequest,
    ApplyPlanResult,
    ApplyPreview,
    apply_plan,
)
from lakesweep.operations.lakes.approval import await_approval
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.lakes.repository_plan import PlanRepositoryRequest, plan_repository
from lakesweep.runs.records import ApprovalState, PlanRecord, PlanStatus
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.apply.unattended_limits import reasons_to_wait
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument, PlanKind, load_plan
from lakesweep.sweep.verdicts import Verdict


class SweepOutcome(StrEnum):
    """How an unattended sweep ended."""

    CLEAN = "clean"
    APPLIED = "applied"
    WAITING = "waiting"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Sweep a lake of the configuration within its limits.

    A dry run plans, and says what it would do.
    """

    lake: str
    engine: EngineName | None = None
    rate: DeleteRate = field(default_factory=DeleteRate)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class SweepRepositoryRequest:
    """Carry out a policy on a lakeFS repository within the limits of lifecycles."""

    plan: PlanRepositoryRequest
    rate: DeleteRate = field(default_factory=DeleteRate)
    dry_run: bool = False


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an unattended sweep did.

    It is `clean` if there was nothing to delete, `planned` if the lake is never applied unattended
    or this was a dry run, and `waiting` for approval because of `reasons`.
    """

    lake: str
    plan: str
    outcome: SweepOutcome
    delete_files: int
    delete_bytes: int
    roots_incomplete: int
    reasons: tuple[str, ...] = ()
    approved_by: str | None = None
    applied: ApplyPlanResult | None = None
    dry_run: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all roots were read, and all files that should go went."""
        return not self.roots_incomplete and (self.applied is None or self.applied.is_complete)


def sweep_lake(app: App, request: SweepRequest, io: Interaction = SILENT_IO) -> SweepResult:
    """Apply the newest approved plan of a lake, or else plan the lake and apply within limits."""
    wanted = PlanLakeRequest(request.lake, engine=request.engine)
    order = _SweepOrder(
        app.lake(request.lake), request.engine, request.rate, dry_run=request.dry_run
    )
    return _sweep(app, order, lambda: plan_lake(app, wanted, io), io)


def sweep_repository(
    app: App, request: SweepRepositoryRequest, io: Interaction = SILENT_IO
) -> SweepResult:
    """The same for a lakeFS repository and a policy, within [lifecycle.limits]."""
    wanted = request.plan
    namespace = app.repository(wanted.repository).namespace
    order = _SweepOrder(
        app.lakes.of_repository(namespace, wanted.home),
        wanted.engine,
        request.rate,
        PlanKind.LIFECYCLE,
        dry_run=request.dry_run,
    )
    return _sweep(app, order, lambda: plan_repository(app, wanted, io), io)


@dataclass(frozen=True, slots=True)
class _SweepOrder:
    """What an unattended sweep works on, and how."""

    lake: Lake
    engine: EngineName | None
    rate: DeleteRate
    kind: PlanKind = PlanKind.SWEEP
    dry_run: bool = False


def _sweep(
    app: App, order: _SweepOrder, plan: Callable[[], PlanDocument], io: Interaction
) -> SweepResult:
    is_applied = not (order.dry_run or order.lake.section.limits.apply == "never")
    approved = _approved_plan(app, order.lake.name) if is_applied else None
    if approved is not None:
        return _apply(app, order, load_plan(app.stores, approved), approved, io)
    document = plan()
    if not document.amount(Verdict.DELETE.value).files:
        return _result(document, SweepOutcome.CLEAN, dry_run=order.dry_run)
    reasons = reasons_to_wait(document, order.lake, app.clock.now())
    if not is_applied:
        return _result(document, SweepOutcome.PLANNED, reasons=reasons, dry_run=order.dry_run)
    if reasons:
        await_approval(app, document.plan, reasons)
        return _result(document, SweepOutcome.WAITING, reasons=reasons)
    return _apply(app, order, document, None, io)


def _approved_plan(app: App, lake: str) -> PlanRecord | None:
    """The newest plan of a lake, if a person approved it and it can still be applied."""
    try:
        newest = app.runs.newest_plan(lake)
    except NotFoundError:
        return None
    is_open = newest.status in (PlanStatus.READY, PlanStatus.APPLYING)
    is_approved = newest.approval and newest.approval.state is ApprovalState.APPROVED
    is_fresh = newest.expires_at > micros(app.clock.now())
    return newest if is_open and is_approved and is_fresh else None


def _apply(
    app: App,
    order: _SweepOrder,
    document: PlanDocument,
    approved: PlanRecord | None,
    io: Interaction,
) -> SweepResult:
    hold = order.lake.section.limits.quarantine
    approval = None if approved is None else approved.approval
    wanted = ApplyPlanRequest(
        document.plan,
        order.kind,
        engine=order.engine,
        rate=order.rate,
        quarantine=hold > timedelta(),
        hold=hold,
        overridden=() if approval is None else approval.overridden,
    )
    applied = apply_plan(app, wanted, _within_limits, io)
    return _result(
        document,
        SweepOutcome.APPLIED,
        approved_by=None if approval is None else approval.by,
        applied=applied,
    )


def _within_limits(preview: ApplyPreview) -> None:
    """Agree: the plan is within the limits, or a person approved it."""
    del preview


def _result(
    document: PlanDocument,
    outcome: SweepOutcome,
    *,
    reasons: tuple[str, ...] = (),
    approved_by: str | None = None,
    applied: ApplyPlanResult | None = None,
    dry_run: bool = False,
) -> SweepResult:
    deletes = document.amount(Verdict.DELETE.value)
    return SweepResult(
        lake=document.lake,
        plan=document.plan,
        outcome=outcome,
        delete_files=deletes.files,
        delete_bytes=deletes.bytes,
        roots_incomplete=document.roots.incomplete,
        reasons=reasons,
        approved_by=approved_by,
        applied=applied,
        dry_run=dry_run,
    )
