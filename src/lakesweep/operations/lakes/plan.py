"""Plan a lake or a lakeFS repository: judge every file and store the verdicts. Deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any

from lakesweep.app import App
from lakesweep.errors import FilterTooSmallError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.judge.pipeline import LifecycleSpec
from lakesweep.lifecycle.plan import document
from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
from lakesweep.lifecycle.plan.planner import LifecyclePlanner
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.lifecycle.run_history import VouchedDocuments
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction, choose_engine
from lakesweep.operations.lakes.engines import open_engine, warn_of_local_plans
from lakesweep.operations.lakes.repositories import neighbours_of
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.listing.inventory import Inventory, open_inventory
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument, PlanKind
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.units import format_duration

#: Retentions below this must be confirmed by default.
FLOOR_DAYS = document.FLOOR_DAYS
BRANCH_GRACE = timedelta(days=7)
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


@dataclass(frozen=True, slots=True)
class PlanRepositoryRequest:
    """Plan a lakeFS repository by a policy.

    `repository` is a name on a configured server, or the address of a storage namespace. The name
    of `policy_file` says whether `policy` is JSON, YAML or TOML. Plans and tables are written to
    `home` instead of the repository's own namespace if it is given. With `as_proposed`, the policy
    is read and carried out as in the original proposal, with the selection REQUIREMENT.
    """

    repository: str
    policy: bytes
    policy_file: str
    selection: Selection = Selection.FULL
    floor_days: int = FLOOR_DAYS
    branch_grace: timedelta = BRANCH_GRACE
    home: str | None = None
    tags_protect_history: bool = False
    engine: EngineName | None = None
    overridden: tuple[str, ...] = ()
    as_proposed: bool = False


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
        _record(session, document)
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


def _sweep_spec(app: App, request: PlanLakeRequest, wanted: PlanRequest) -> dict[str, Any]:
    return {
        "engine": choose_engine(app, request.engine).value,
        "mode": wanted.mode.value,
        "grace": format_duration(wanted.grace),
        "inventory": None if wanted.inventory is None else wanted.inventory.path,
        "overridden": list(wanted.overridden),
    }


def plan_repository(
    app: App, request: PlanRepositoryRequest, io: Interaction = SILENT_IO
) -> PlanDocument:
    """Store a plan for a repository. Notifies the caller of the policy in words."""
    repository = app.repository(request.repository)
    wanted = _lifecycle_plan(app, request, repository)
    for line in wanted.spec.policy.words():
        io.notify(line)
    warn_of_local_plans(app, request.engine, wanted.lake, io)
    spec = {
        "engine": choose_engine(app, request.engine).value,
        "mode": wanted.spec.selection.value,
        "policy": request.policy_file,
    }
    lake = lake_name(repository.namespace)
    with (
        run_session(app.runs, lake, RunKind.PLAN, spec=spec, plans=wanted.lake.plans) as session,
        open_engine(app, request.engine, io) as engine,
    ):
        planner = LifecyclePlanner(
            app.stores, engine, app.judges(engine), app.runs, app.clock, io.progress
        )
        wanted = replace(wanted, spec=replace(wanted.spec, run_id=session.record.run))
        document = planner.plan(wanted, session.started, session.lease)
        _record(session, document)
    return document


def _lifecycle_plan(
    app: App, request: PlanRepositoryRequest, repository: Repository
) -> LifecyclePlanRequest:
    name = PurePath(request.policy_file).name
    policy = parse_policy(request.policy, name)
    spec = LifecycleSpec(
        repository,
        policy.as_proposed() if request.as_proposed else policy,
        run_id="",
        now=app.clock.now(),
        folder="",
        documents=VouchedDocuments(app.runs, lake_name(repository.namespace)),
        home=request.home,
        selection=Selection.REQUIREMENT if request.as_proposed else request.selection,
        grace=request.branch_grace,
        tags_protect_history=request.tags_protect_history,
        without_staging=GuardName.STAGED in request.overridden,
        as_proposed=request.as_proposed,
    )
    return LifecyclePlanRequest(
        app.repository_lake(repository.namespace, request.home),
        spec,
        lambda: app.repository_alone(repository.name),
        neighbours_of(app, repository),
        request.overridden,
        request.policy.decode(),
        name,
        app.root_sources,
        app.siblings(repository.name),
        request.floor_days,
    )


def _record(session: Session, document: PlanDocument) -> None:
    session.figures = _figures(document)
    if document.kind is PlanKind.SWEEP and document.roots.incomplete:
        session.status = RunStatus.INCOMPLETE
        session.message = f"{document.roots.incomplete} roots could not be read"


def _figures(document: PlanDocument) -> dict[str, Any]:
    """The figures of a run that made a plan. Their keys are stored."""
    deleted, kept = document.amount("delete"), document.amount("keep")
    marked = {
        "roots_complete": document.roots.complete,
        "roots_incomplete": document.roots.incomplete,
        "filter": document.filter,
    }
    return {
        "plan": document.plan,
        "delete_files": deleted.files,
        "delete_bytes": deleted.bytes,
        "keep_files": kept.files,
        "keep_bytes": kept.bytes,
        **(marked if document.kind is PlanKind.SWEEP else {}),
        "seconds": document.seconds,
        **document.spec,
    }
