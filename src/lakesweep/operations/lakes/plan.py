"""Plan a lake: judge every file and store the verdicts. Deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from msgspec import UNSET

from lakesweep.app import App
from lakesweep.errors import FilterTooSmallError, UsageError
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction, choose_engine
from lakesweep.operations.lakes.engines import open_engine, warn_of_local_plans
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.runs.run_figures import PlanRunFigures, Recorded, recorded_figures
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.listing.inventory import Inventory, open_inventory
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument, PlanKind
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.units import format_count, format_duration

#: Plans warn this long before a standing decision ends.
_END_WARNING = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PlanLakeRequest:
    """Plan a lake of the configuration.

    Without `grace` the lake's own applies. `inventory` is the address of an S3 inventory manifest,
    or of a Parquet or CSV file, which needs `inventory_time`.
    """

    lake: str
    engine: EngineName | None = None
    mode: MatchMode = MatchMode.AUTO
    grace: timedelta | None = None
    inventory: str | None = None
    inventory_time: datetime | None = None
    overridden: tuple[str, ...] = ()


def plan_lake(app: App, request: PlanLakeRequest, io: Interaction = SILENT_IO) -> PlanDocument:
    """Store a plan for a lake. Roots that could not be read are counted in `roots.incomplete`."""
    lake = app.lake(request.lake)
    wanted = _sweep_plan(app, request, lake)
    warn_of_local_plans(app, request.engine, lake, io)
    for line in decision_warnings(lake, app.clock.now()):
        io.notify(line)
    # The lease comes first: a second run is refused before Spark starts.
    with (
        run_session(
            app.runs,
            request.lake,
            RunKind.PLAN,
            spec=_sweep_spec(app, request, wanted),
            plans=lake.plans,
        ) as session,
        open_engine(app, request.engine, io) as engine,
    ):
        planner = Planner(
            app.stores, engine, app.runs, app.clock, io.progress, sources=app.root_sources
        )
        wanted = replace(wanted, name=session.record.run)  # the plan is named after the run
        try:
            document = planner.plan(wanted, session.started, session.lease)
        except FilterTooSmallError as error:
            session.figures = {"filter": {"needed_bytes": error.needed_bytes}}
            raise
        record_plan(session, document)
    return document


def decision_warnings(lake: Lake, now: datetime) -> Iterator[str]:
    """Standing decisions that have ended or end soon, in words."""
    for each in lake.section.accept:
        what = f"accept {each.guard} for {each.subject} ({each.reason})"
        if now >= each.ends:
            yield f"{what} ended on {each.until} and does not count any more"
        elif each.ends - now <= _END_WARNING:
            yield f"{what} ends on {each.until}"


def _sweep_plan(app: App, request: PlanLakeRequest, lake: Lake) -> PlanRequest:
    return PlanRequest(
        lake,
        lake.grace if request.grace is None else request.grace,
        request.mode,
        request.overridden,
        _inventory(app, request),
    )


def _inventory(app: App, request: PlanLakeRequest) -> Inventory | None:
    path, taken_at = request.inventory, request.inventory_time
    if path is None:
        if taken_at is not None:
            raise UsageError("an inventory time needs an inventory")
        return None
    if taken_at is not None and path.endswith(".json"):
        raise UsageError(
            "the manifest of an inventory has its own time", hint="leave the inventory time out"
        )
    found = open_inventory(app.stores, path, taken_at=taken_at)
    found.age(app.clock.now())  # refuses an inventory from the future
    return found


def _sweep_spec(app: App, request: PlanLakeRequest, wanted: PlanRequest) -> Recorded:
    return {
        "engine": choose_engine(app, request.engine).value,
        "mode": wanted.mode.value,
        "grace": format_duration(wanted.grace),
        "inventory": None if wanted.inventory is None else wanted.inventory.path,
        "overridden": list(wanted.overridden),
    }


def record_plan(session: Session, document: PlanDocument) -> None:
    """Add to the record of a run what it planned."""
    session.figures = recorded_figures(_figures(document), **document.spec)
    if document.kind is PlanKind.SWEEP and document.roots.incomplete:
        session.status = RunStatus.INCOMPLETE
        session.message = f"{format_count(document.roots.incomplete, 'root')} could not be read"


def _figures(document: PlanDocument) -> PlanRunFigures:
    deleted, kept = document.amount("delete"), document.amount("keep")
    is_sweep = document.kind is PlanKind.SWEEP
    return PlanRunFigures(
        plan=document.plan,
        delete_files=deleted.files,
        delete_bytes=deleted.bytes,
        keep_files=kept.files,
        keep_bytes=kept.bytes,
        roots_complete=document.roots.complete if is_sweep else UNSET,
        roots_incomplete=document.roots.incomplete if is_sweep else UNSET,
        filter=document.filter if is_sweep else UNSET,
        seconds=document.seconds,
    )
