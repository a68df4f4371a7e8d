"""Choose the root sources to ask before a quarantine is emptied, for lakes and repositories.

If what is referenced cannot be known, because the lake, the repository or the plan is gone, a
guard refuses to empty the quarantine unless it is overridden.
"""

from __future__ import annotations

from collections.abc import Collection

from lakesweep.app import App
from lakesweep.errors import ConfigError, DamagedError, NotFoundError
from lakesweep.guard_names import GuardName
from lakesweep.lifecycle.plan.recheck import NeighbourSources, RecheckSources, head_metaranges
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.operations.lakes.repositories import opener_of, recheck_sources
from lakesweep.runs.run_names import command_prefix, is_repository
from lakesweep.sweep.guards import Guard, check_policy, refuse
from lakesweep.sweep.holdings import Holding
from lakesweep.sweep.plan.document import load_plan
from lakesweep.sweep.roots.sources import RootSourceFactory


def quarantine_roots(app: App, holding: Holding, overridden: Collection[str]) -> RootSourceFactory:
    """The sources of everything that may reference what a plan quarantined."""
    if is_repository(holding.lake):
        return _repository_roots(app, holding, overridden)
    if holding.lake not in app.config.lakes:
        why = (
            f"lake {holding.lake} is no longer configured, so its roots are unknown; configure it"
            " again, unless nothing reads its files any more"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
    return app.root_sources


def _repository_roots(app: App, holding: Holding, overridden: Collection[str]) -> RootSourceFactory:
    """The repository, as far as it changed since the plan, and others that may need its objects."""
    plan = app.runs.plan(holding.plan)
    try:
        document = load_plan(app.stores, plan)
        found = recheck_sources(app, plan, document)
    except (NotFoundError, DamagedError) as error:
        why = (
            f"the plan says what was referenced, and it cannot be read: {error.message}; restore"
            " its folder, or only what branches and tags show, and what is staged, is kept"
        )
        _refuse(GuardName.PLAN_GONE, why, holding, overridden)
        return _roots_without_plan(app, holding, overridden)
    # A policy that was applied since may keep for longer what this plan expired.
    applied = app.runs.lake(holding.lake).policy
    for guard in check_policy(document.policy, applied):
        _refuse(guard.name, guard.message, holding, overridden)
    try:
        found.opener()
    except (ConfigError, NotFoundError) as error:
        why = (
            f"repository {found.repository} cannot be read, so what it references is unknown:"
            f" {error.message}; configure it again, unless it was deleted"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
        return found.others
    return found


def _roots_without_plan(
    app: App, holding: Holding, overridden: Collection[str]
) -> RootSourceFactory:
    openers = {name: opener_of(app, name) for name in app.repository_names}
    own = [name for name, each in openers.items() if lake_name(each().namespace) == holding.lake]
    neighbours = {name: opener for name, opener in openers.items() if name not in own}
    without_staging = GuardName.STAGED in overridden
    others = NeighbourSources(neighbours, without_staging, of_lakes=app.root_sources)
    if not own:
        return others
    return RecheckSources(own[0], openers[own[0]], head_metaranges, others)


def _refuse(name: str, why: str, holding: Holding, overridden: Collection[str]) -> None:
    """RefusedError unless the guard is overridden."""
    again = f"lakesweep quarantine empty {holding.plan}"
    refuse([Guard(name, why)], overridden, holding.plan, command_prefix(holding.lake), again)
