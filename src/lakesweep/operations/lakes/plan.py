"""Plan a lake or a lakeFS repository: judge every file and store the verdicts. Deletes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any

from lakesweep.app import App
from lakesweep.errors import UsageError
from lakesweep.guard_names import GuardName
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.judge.pipeline import LifecycleSpec
from lakesweep.lifecycle.plan.document import LifecyclePlanRequest
from lakesweep.lifecycle.plan.planner import LifecyclePlanner
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.operations.interaction import SILENT_IO, EngineName, Interaction
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

#: Rules with fewer days than this are refused by default.
FLOOR_DAYS = 7
BRANCH_GRACE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PlanLakeRequest:
    """Plan a lake of the configuration.

    Without `grace` the lake's own applies. `inventory` is the address of an S3 inventory manifest,
    or of a Parquet or CSV file, which needs `inventory_time`.
    """

    lake: str
    engine: EngineName = EngineName.SPARK
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
    `home` instead of the repository's own namespace if it is given.
    """

    repository: str
    policy: bytes
    policy_file: str
    selection: Selection = Selection.FULL
    floor_days: int = FLOOR_DAYS
    branch_grace: timedelta = BRANCH_GRACE
    home: str | None = None
    tags_protect_history: bool = False
    engine: EngineName = EngineName.SPARK
    overridden: tuple[str, ...] = ()


def plan_lake(app: App, request: PlanLakeRequest, io: Interaction = SILENT_IO) -> PlanDocument:
    """Store a plan for a lake. Roots that could not be read are counted in `roots.incomplete`."""
    lake = app.lake(request.lake)
    wanted = _sweep_plan(app, request, lake)
    warn_of_local_plans(app, request.engine, lake, io)
    # The lease comes first: a second run is refused before Spark starts.
    with (
        run_session(
            app.runs, request.lake, RunKind.PLAN, spec=_sweep_spec(request, wanted)
        ) as session,
        open_engine(app, request.engine, io) as engine,
    ):
        planner = Planner(
            app.stores, engine, app.runs, app.clock, io.progress, sources=app.root_sources
        )
        wanted = replace(wanted, name=session.record.run)  # the plan is named after the run
        document = planner.plan(wanted, session.started, session.lease)
        _record(session, document)
    return document


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


def _sweep_spec(request: PlanLakeRequest, wanted: PlanRequest) -> dict[str, Any]:
    return {
        "engine": request.engine.value,
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
        "engine": request.engine.value,
        "mode": request.selection.value,
        "policy": request.policy_file,
    }
    lake = lake_name(repository.namespace)
    with (
        run_session(app.runs, lake, RunKind.PLAN, spec=spec) as session,
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
    spec = LifecycleSpec(
        repository,
        parse_policy(request.policy, name, floor=request.floor_days),
        run_id="",
        now=app.clock.now(),
        folder="",
        home=request.home,
        selection=request.selection,
        grace=request.branch_grace,
        tags_protect_history=request.tags_protect_history,
        without_staging=GuardName.STAGED in request.overridden,
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
