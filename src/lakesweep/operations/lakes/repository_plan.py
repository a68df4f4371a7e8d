"""Plan a lakeFS repository by a policy: judge every file and store the verdicts. Deletes nothing.

Apart from the plan of a lake, which needs none of what is imported here and starts sooner for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import PurePath

from lakesweep.app import App
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
from lakesweep.operations.lakes.plan import record_plan
from lakesweep.operations.lakes.repositories import neighbours_of
from lakesweep.runs.records import RunKind
from lakesweep.runs.sessions import run_session
from lakesweep.sweep.plan.document import PlanDocument

#: Retentions below this must be confirmed by default.
FLOOR_DAYS = document.FLOOR_DAYS
BRANCH_GRACE = timedelta(days=7)


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
        record_plan(session, document)
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
        app.lakes.of_repository(repository.namespace, request.home),
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
