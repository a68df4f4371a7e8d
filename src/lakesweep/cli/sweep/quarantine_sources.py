"""Choose the root sources to ask before a quarantine is emptied, for lakes and repositories."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lakesweep.errors import ConfigError, DamagedError, NotFoundError
from lakesweep.guard_names import GuardName

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.runs.sessions import Session
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.holdings import Holding
    from lakesweep.sweep.quarantine.emptying import EmptyingResult
    from lakesweep.sweep.roots.sources import RootSourceFactory


def empty_quarantine(
    context: Context,
    engine: SweepEngine,
    holding: Holding,
    session: Session,
    overridden: Collection[str],
) -> EmptyingResult:
    """End the hold of what nothing references by now."""
    from lakesweep.sweep.quarantine.emptying import QuarantineEmptier

    app = context.app
    releaser = QuarantineEmptier(
        app.stores,
        engine,
        app.runs,
        context.clock,
        context.progress,
        _sources(context, holding, overridden),
    )
    return releaser.release(app.lake_of_holding(holding), holding, session, overridden)


def _sources(context: Context, holding: Holding, overridden: Collection[str]) -> RootSourceFactory:
    from lakesweep.runs.run_names import is_repository

    if is_repository(holding.lake):
        return _sources_of_repository(context, holding, overridden)
    if holding.lake not in context.config.lakes:
        why = (
            f"the configuration has no lake {holding.lake} any more, so its roots are not known:"
            " put it back, unless nothing reads its files any more"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
    return context.app.root_sources


def _sources_of_repository(
    context: Context, holding: Holding, overridden: Collection[str]
) -> RootSourceFactory:
    """The repository, as far as it changed since the plan, and others that may need its objects."""
    from lakesweep.operations.repositories import recheck_sources
    from lakesweep.sweep.guards import check_policy
    from lakesweep.sweep.plan.document import load_plan

    plan = context.app.runs.plan(holding.plan)
    try:
        document = load_plan(context.app.stores, plan)
        found = recheck_sources(context.app, plan, document)
    except (NotFoundError, DamagedError) as error:
        why = (
            f"what was referenced when the plan was made is not known: {error.message}; bring its"
            " folder back, or only what branches and tags show, and what is staged, is kept"
        )
        _refuse(GuardName.PLAN_GONE, why, holding, overridden)
        return _sources_without_plan(context, holding, overridden)
    # A policy that came since may want for longer what this one let go.
    applied = context.app.runs.lake(holding.lake).policy
    for guard in check_policy(document.policy, applied):
        _refuse(guard.name, guard.message, holding, overridden)
    try:
        found.opener()
    except (ConfigError, NotFoundError) as error:
        why = (
            f"repository {found.repository} cannot be asked what it references: {error.message};"
            " configure it again, unless it is gone for good"
        )
        _refuse(GuardName.LAKE_GONE, why, holding, overridden)
        return found.others
    return found


def _sources_without_plan(
    context: Context, holding: Holding, overridden: Collection[str]
) -> RootSourceFactory:
    from lakesweep.lifecycle.plan.recheck import NeighbourSources, RecheckSources, head_metaranges
    from lakesweep.lifecycle.repository_lake import lake_name
    from lakesweep.operations.repositories import opener_of

    openers = {name: opener_of(context.app, name) for name in context.app.repository_names}
    own = [name for name, each in openers.items() if lake_name(each().namespace) == holding.lake]
    neighbours = {name: opener for name, opener in openers.items() if name not in own}
    of_lakes = context.app.root_sources
    others = NeighbourSources(neighbours, GuardName.STAGED in overridden, of_lakes=of_lakes)
    if not own:
        return others
    return RecheckSources(own[0], openers[own[0]], head_metaranges, others)


def _refuse(name: str, why: str, holding: Holding, overridden: Collection[str]) -> None:
    """RefusedError where nobody could tell what is referenced, unless somebody knows it."""
    from lakesweep.runs.run_names import command_prefix
    from lakesweep.sweep.guards import Guard, refuse

    again = f"lakesweep quarantine empty {holding.plan}"
    refuse([Guard(name, why)], overridden, holding.plan, command_prefix(holding.lake), again)
