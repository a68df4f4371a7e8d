"""Apply a plan of a lake or of a repository: guards, recheck, then delete or quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.errors import StorageError
from lakesweep.lifecycle.apply.applier import (
    PendingBranch,
    PendingOnHeads,
    apply_lifecycle_plan,
    pending_on_heads,
    record_dry_run,
)
from lakesweep.operations.interaction import (
    SILENT_IO,
    Confirm,
    EngineName,
    Interaction,
    choose_engine,
)
from lakesweep.operations.lakes.engines import open_engine
from lakesweep.operations.lakes.repositories import opener_of, plan_or_lake, recheck_sources
from lakesweep.operations.upkeep.expiry_plans import apply_expiry
from lakesweep.operations.upkeep.expiry_result import IcebergExpiryPreview
from lakesweep.operations.upkeep.iceberg_trim import TrimResult
from lakesweep.operations.upkeep.table_plans import ApplyTerms
from lakesweep.operations.upkeep.upkeep_plans import (
    RewriteDetails,
    TrimDetails,
    apply_rewrite,
    apply_trim,
    upkeep_details,
)
from lakesweep.runs.records import RunKind, is_table
from lakesweep.runs.run_figures import Recorded
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.deleting.outcome_totals import OutcomeReport
from lakesweep.storage.deleting.quarantine import QUARANTINE_SCHEMA
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.options import DeleteRate
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval, QuarantineRemoval
from lakesweep.sweep.apply.report import ApplyReport, ApplyResult
from lakesweep.sweep.apply.withholding import Withholding
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.guards import Guard
from lakesweep.sweep.holdings import HOLD_UNTIL, quarantine_places
from lakesweep.sweep.plan.document import (
    PlanDocument,
    PlanKind,
    accepted_guards,
    check_kind,
    load_plan,
)
from lakesweep.sweep.plan.stored_plan import find_plan
from lakesweep.sweep.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class ApplyPlanRequest:
    """Apply a plan, by its name or the newest one of a lake or repository.

    `bytes_at_once` is for repositories: delete also what HEADs hold, and leave its paths on the
    branches. `hold` is how long files stay in quarantine before a job may empty it; without it they
    stay until a person does.
    """

    plan: str
    kind: PlanKind = PlanKind.SWEEP
    engine: EngineName | None = None
    rate: DeleteRate = field(default_factory=DeleteRate)
    quarantine: bool = False
    bytes_at_once: bool = False
    overridden: tuple[str, ...] = ()
    dry_run: bool = False
    hold: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ApplyPreview:
    """What an apply is about to do. The waiting files are deleted by a later run.

    `rewrite` names a task that commits a new snapshot and deletes no file.
    """

    plan: str
    lake: str
    files: int
    bytes: int
    quarantine: bool
    waiting_files: int
    waiting_bytes: int
    branches: tuple[PendingBranch, ...]
    withheld: tuple[Guard, ...] = ()
    rewrite: str | None = None


class ApplyPlanResult(ApplyReport, frozen=True, kw_only=True):
    """What an apply did. `stopped` says why it ended early; the same plan can be applied again.

    A dry run has no run. `to_take_off` is only in a dry run of a repository: the number of paths
    that would be removed from each branch.
    """

    run: str | None
    plan: str
    kept_by_remark: int
    quarantined: int
    stopped: str | None
    dry_run: bool
    to_take_off: dict[str, int] | UnsetType = UNSET


def apply_plan(
    app: App,
    request: ApplyPlanRequest,
    confirm: Confirm[ApplyPreview],
    io: Interaction = SILENT_IO,
) -> ApplyPlanResult:
    """Delete or quarantine the files of a plan that nothing references now."""
    # A repository may stand for its newest plan, under a name that only lifecycles know.
    if request.kind is PlanKind.SWEEP and is_table(find_plan(app.runs, request.plan).lake):
        return _apply_to_table(app, request, confirm, io)
    wanted = _apply_request(app, request)
    document = load_applicable_plan(app.stores, app.runs, wanted, app.clock.now())
    check_kind(document, request.kind)
    pending = pending_of(document, request)
    withheld = _withheld(document, wanted, app.clock.now())
    confirm(preview_of(document, pending, request, withheld))
    if request.dry_run:
        if pending is not None:
            _record_dry_run(app, document, pending, io)
        return _dry_run(document, pending)
    run, applied = _run(app, request, wanted, document, io)
    return _result(document, run, applied)


def _apply_to_table(
    app: App, request: ApplyPlanRequest, confirm: Confirm[ApplyPreview], io: Interaction
) -> ApplyPlanResult:
    """Carry out a plan that changes a table in place."""
    document = load_plan(app.stores, find_plan(app.runs, request.plan))
    planned = document.amount(Verdict.DELETE.value)
    details = upkeep_details(document)
    rewrite = details.task.value if isinstance(details, RewriteDetails) else None

    def preview(files: int, size: int) -> None:
        amount = (files, size, request.quarantine)
        confirm(ApplyPreview(document.plan, document.lake, *amount, 0, 0, (), rewrite=rewrite))

    if request.dry_run:
        preview(planned.files, planned.bytes)
        return _dry_run(document, None)
    done = _apply_task(app, document, request, preview, io)
    return ApplyPlanResult(
        **msgspec.structs.asdict(done),
        run=find_plan(app.runs, document.plan).run,
        plan=document.plan,
        kept_by_remark=max(0, planned.files - done.found),
        stopped=None,
        dry_run=False,
    )


_Amounts = Callable[[int, int], None]


def _apply_task(
    app: App, document: PlanDocument, request: ApplyPlanRequest, preview: _Amounts, io: Interaction
) -> OutcomeReport:
    match upkeep_details(document):
        case None:
            return _apply_expiry(app, document, request, preview, io)
        case TrimDetails():
            return _apply_trim(app, document, request, preview, io)
        case RewriteDetails():
            return _apply_rewrite(app, document, request, preview, io)


def _apply_expiry(
    app: App, document: PlanDocument, request: ApplyPlanRequest, preview: _Amounts, io: Interaction
) -> OutcomeReport:
    """Expire the snapshots of a table by a plan, and delete or quarantine what only they held."""

    def confirm(found: IcebergExpiryPreview) -> None:
        preview(found.total_files, found.planned.bytes_deleted)

    result = apply_expiry(app, document.plan, confirm, io, _apply_terms(request))
    deleted, moved = sum(result.deleted.values()), sum((result.quarantined or {}).values())
    omitted = result.failures_omitted or 0
    return OutcomeReport(
        found=deleted + moved + (result.absent or 0) + len(result.failures),
        deleted=deleted,
        absent=result.absent or 0,
        failed=len(result.failures) + omitted,
        bytes_deleted=result.bytes_deleted,
        bytes_quarantined=result.bytes_quarantined,
        failures=result.failures,
        failures_omitted=omitted,
        quarantined=moved,
    )


def _apply_trim(
    app: App, document: PlanDocument, request: ApplyPlanRequest, preview: _Amounts, io: Interaction
) -> OutcomeReport:
    """Trim the metadata of a table by a plan."""

    def confirm(found: TrimResult) -> None:
        preview(found.found, found.bytes_found)

    result = apply_trim(app, document.plan, confirm, io, _apply_terms(request))
    return OutcomeReport(
        found=result.deleted + result.quarantined + result.absent + len(result.failures),
        deleted=result.deleted,
        absent=result.absent,
        failed=len(result.failures),
        bytes_deleted=result.bytes_deleted,
        bytes_quarantined=result.bytes_quarantined,
        failures=result.failures,
        quarantined=result.quarantined,
    )


def _apply_rewrite(
    app: App, document: PlanDocument, request: ApplyPlanRequest, preview: _Amounts, io: Interaction
) -> OutcomeReport:
    """Rewrite the current snapshot of a table by a plan; no file is deleted."""
    terms = _apply_terms(request)
    result = apply_rewrite(app, document.plan, lambda _: preview(0, 0), io, terms)
    if result.snapshot_id is None:
        io.notify(f"{result.table}: nothing is left to do")
    else:
        io.notify(f"{result.table}: committed snapshot {result.snapshot_id}")
    return OutcomeReport(quarantined=0)


def _apply_terms(request: ApplyPlanRequest) -> ApplyTerms:
    return ApplyTerms(
        quarantine=request.quarantine,
        hold=request.hold,
        rate=request.rate,
        overrides=frozenset(request.overridden),
        engine=request.engine or EngineName.LOCAL,
    )


def _apply_request(app: App, request: ApplyPlanRequest) -> ApplyRequest:
    is_lifecycle = request.kind is PlanKind.LIFECYCLE
    plan = find_plan(app.runs, plan_or_lake(app, request.plan) if is_lifecycle else request.plan)
    lake = app.lakes.of_plan(plan)
    places = quarantine_places(lake, plan.plan)
    return ApplyRequest(
        plan,
        lake,
        QuarantineRemoval(places) if request.quarantine else DeleteRemoval(),
        QUARANTINE_SCHEMA if request.quarantine else OUTCOME_SCHEMA,
        request.rate,
        request.overridden,
    )


def pending_of(document: PlanDocument, request: ApplyPlanRequest) -> PendingOnHeads | None:
    """What waits until branches have lost their paths; None for a sweep, where nothing does."""
    if request.kind is PlanKind.SWEEP:
        return None
    return pending_on_heads(document, at_once=request.bytes_at_once)


def preview_of(
    document: PlanDocument,
    pending: PendingOnHeads | None,
    request: ApplyPlanRequest,
    withheld: tuple[Guard, ...] = (),
) -> ApplyPreview:
    """What a person decides about: what the plan deletes now, without what waits for branches."""
    amount, waiting = document.amount(Verdict.DELETE.value), pending or PendingOnHeads()
    return ApplyPreview(
        document.plan,
        document.lake,
        amount.files - waiting.files,
        amount.bytes - waiting.bytes,
        request.quarantine,
        waiting.files,
        waiting.bytes,
        waiting.branches,
        withheld,
    )


def _withheld(document: PlanDocument, wanted: ApplyRequest, now: datetime) -> tuple[Guard, ...]:
    """The guards that withhold files, with the subjects that are not accepted."""
    overridden = {*wanted.overridden, *document.overridden}
    withholding = Withholding(overridden, accepted_guards(wanted.lake, now))
    return tuple(guard for guard in document.guards if withholding.standing(guard))


def _run(
    app: App,
    request: ApplyPlanRequest,
    wanted: ApplyRequest,
    document: PlanDocument,
    io: Interaction,
) -> tuple[str, ApplyResult]:
    # The engine comes first: Spark takes long to start, and the lease should not wait for it.
    with (
        open_engine(app, request.engine, io) as engine,
        run_session(
            app.runs,
            document.lake,
            RunKind.APPLY,
            plan=document.plan,
            spec=_spec(app, request, wanted),
            plans=wanted.lake.plans,
        ) as session,
    ):
        return session.record.run, _apply(app, request, wanted, document, engine, session, io)


def _apply(
    app: App,
    request: ApplyPlanRequest,
    wanted: ApplyRequest,
    document: PlanDocument,
    engine: SweepEngine,
    session: Session,
    io: Interaction,
) -> ApplyResult:
    applier = Applier(app.stores, engine, app.runs, app.clock, io.progress, app.root_sources)
    if request.kind is PlanKind.SWEEP:
        return applier.apply(wanted, document, session)
    applier.sources = recheck_sources(app, wanted.plan, document)
    opener = opener_of(app, document.details["repository"])
    at_once = request.bytes_at_once
    return apply_lifecycle_plan(applier, wanted, document, session, opener, at_once=at_once)


def _spec(app: App, request: ApplyPlanRequest, wanted: ApplyRequest) -> Recorded:
    """What the run records of the request. The keys are stored."""
    now = app.clock.now()
    accepted = msgspec.to_builtins(accepted_guards(wanted.lake, now))
    return {
        "overridden": list(request.overridden),
        "engine": choose_engine(app, request.engine).value,
        "quarantine": request.quarantine,
        **({"accepted": accepted} if accepted else {}),
        **({HOLD_UNTIL: micros(now + request.hold)} if request.quarantine and request.hold else {}),
        **wanted.removal.spec,
    }


def _result(document: PlanDocument, run: str, applied: ApplyResult) -> ApplyPlanResult:
    report = msgspec.structs.asdict(applied.report)
    return ApplyPlanResult(
        **report | {"quarantined": applied.report.quarantined or 0},
        run=run,
        plan=document.plan,
        kept_by_remark=applied.kept_by_remark,
        stopped=applied.stopped,
        dry_run=False,
    )


def _record_dry_run(
    app: App, document: PlanDocument, pending: PendingOnHeads, io: Interaction
) -> None:
    """Add a line to the day's statistics of the repository; a dry run needs no right to write."""
    try:
        record_dry_run(app.stores, app.runs, document, app.clock.now(), pending.files)
    except StorageError as error:
        io.notify(f"warning: the statistics of the repository were not written: {error.message}")


def _dry_run(document: PlanDocument, pending: PendingOnHeads | None) -> ApplyPlanResult:
    branches = {} if pending is None else {each.name: each.paths for each in pending.branches}
    return ApplyPlanResult(
        found=document.amount(Verdict.DELETE.value).files,
        run=None,
        plan=document.plan,
        kept_by_remark=0,
        quarantined=0,
        stopped=None,
        dry_run=True,
        waiting=UNSET if pending is None else pending.files,
        to_take_off=UNSET if pending is None else branches,
    )
