"""`lakesweep lifecycle show`: what a plan by a policy found, and what it would delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.show import Choice, describe_state, stream_files

if TYPE_CHECKING:
    from lakesweep.sweep.stored_plan import StoredPlan

LifecyclePlan = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="A plan, as lakesweep lifecycle plan named it; or a repository, for its newest plan.",
    ),
]


def show(context: Context, plan: LifecyclePlan, choice: Choice) -> None:
    """What a plan found: what is saved by rule, prefix and branch, and who holds what; or files.

    Branches and tags that have not moved for long, and that alone hold objects, are told apart.
    Files are streamed, however many there are; --verdict and --reason choose among them.
    """
    found = open_lifecycle_plan(context, plan)
    if choice.is_any:
        stream_files(context, found, choice)
        return
    from lakesweep.cli.lifecycle_tables import facts_table, insight_tables
    from lakesweep.cli.plan_tables import (
        breakdown_tables,
        plan_document,
        summary,
        totals_table,
        warnings_tables,
    )

    document, state = found.document, found.state(context.clock.now())
    context.output.result(
        {**plan_document(document), "state": state, "run": found.record.run},
        facts_table(document, describe_state(found, state)),
        totals_table(document),
        *insight_tables(document),
        *breakdown_tables(document),
        *warnings_tables(document),
    )
    context.output.say(summary(document))


def open_lifecycle_plan(context: Context, name: str) -> StoredPlan:
    """A plan by its name, or the newest one of a repository."""
    from lakesweep.sweep.plans import PlanKind, check_kind
    from lakesweep.sweep.stored_plan import open_plan

    found = open_plan(context.app.stores, context.app.runs, plan_or_lake(context, name))
    check_kind(found.document, PlanKind.LIFECYCLE)
    return found


def plan_or_lake(context: Context, name: str) -> str:
    """A name of a plan as it is; that of a repository as the name of its lake."""
    from lakesweep.cli.lifecycle_repositories import find_repository
    from lakesweep.errors import NotFoundError
    from lakesweep.lifecycle.lakes import lake_name
    from lakesweep.sweep.lake_names import is_repository

    if name.startswith("plan-") or is_repository(name):
        return name
    try:
        context.app.runs.plan(name)
    except NotFoundError:
        return lake_name(find_repository(context, name).namespace)
    return name
