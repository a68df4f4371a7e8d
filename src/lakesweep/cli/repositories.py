"""Find the lakeFS repositories that commands name, and the root sources for their plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import absolute_address

if TYPE_CHECKING:
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.plan.recheck import RecheckSources
    from lakesweep.runs.records import PlanRecord
    from lakesweep.sweep.plan.document import PlanDocument
    from lakesweep.sweep.roots.lakefs import RepositoryOpener

RepositoryName = Annotated[
    str,
    typer.Argument(
        metavar="REPO",
        help="Name of a repository on the configured lakeFS server, or address of a storage"
        " namespace that holds a refs dump.",
        show_default=False,
    ),
]


def find_repository(context: Context, name: str) -> Repository:
    """The repository by its name, or at an address as people write it."""
    from lakesweep.lakefs.repository.lookup import is_address

    return context.app.repository(absolute_address(name) if is_address(name) else name)


def opener_of(context: Context, name: str) -> RepositoryOpener:
    """Who opens a repository of the configuration, or at a whole address."""
    return lambda: context.app.repository(name)


def sources_of(context: Context, plan: PlanRecord, document: PlanDocument) -> RecheckSources:
    """Who is asked what changed since a plan."""
    from lakesweep.lifecycle.apply.applier import plan_sources

    details = document.details
    # Those that were configured since may have imported objects as well.
    names = (details["repository"], *details["neighbours"], *context.app.repository_names)
    openers: dict[str, RepositoryOpener] = {name: opener_of(context, name) for name in names}
    # Servers let another one be made in the same folder at any time.
    openers[names[0]] = lambda: context.app.repository_alone(names[0])
    return plan_sources(context.app.stores, plan, document, openers, context.app.root_sources)


def neighbours_of(context: Context, repository: Repository) -> dict[str, RepositoryOpener]:
    """The other repositories of the configuration: they may have imported objects of this one."""
    names = context.app.repository_names
    return {name: opener_of(context, name) for name in names if name != repository.name}
