"""`lakesweep lifecycle show`: savings, refs, guards and files of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.sweep.show import FileChoice, describe_state, stream_files

if TYPE_CHECKING:
    from lakesweep.sweep.plan.stored_plan import StoredPlan

LifecyclePlan = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="A plan, as lakesweep lifecycle plan named it; or a repository, for its newest plan.",
    ),
]


def show(context: Context, plan: LifecyclePlan, choice: FileChoice) -> None:
    """What a plan found: what is saved by rule, prefix and branch, and who holds what; or files.

    Branches and tags that have not moved for long, and that alone hold objects, are told apart.
    Files are streamed, however many there are; --verdict and --reason choose among them.
    """
    found = open_lifecycle_plan(context, plan)
    if choice.is_any:
        stream_files(context, found, choice)
        return
    from lakesweep.cli.render.lifecycle_plan_tables import insight_tables, lifecycle_facts_table
    from lakesweep.cli.render.plan_tables import (
        breakdown_tables,
        plan_document,
        summary,
        totals_table,
        warnings_tables,
    )

    document, state = found.document, found.state(context.clock.now())
    context.output.result(
        {**plan_document(document), "state": state, "run": found.record.run},
        lifecycle_facts_table(document, describe_state(found, state)),
        totals_table(document),
        *insight_tables(document),
        *breakdown_tables(document),
        *warnings_tables(document),
    )
    context.output.say(summary(document))


def open_lifecycle_plan(context: Context, name: str) -> StoredPlan:
    """A plan by its name, or the newest one of a repository."""
    from lakesweep.sweep.plan.document import PlanKind, check_kind
    from lakesweep.sweep.plan.stored_plan import open_plan

    found = open_plan(context.app.stores, context.app.runs, plan_or_lake(context, name))
    check_kind(found.document, PlanKind.LIFECYCLE)
    return found


def plan_or_lake(context: Context, name: str) -> str:
    """A name of a plan as it is; that of a repository as the name of its lake."""
    from lakesweep.cli.repositories import find_repository
    from lakesweep.errors import NotFoundError
    from lakesweep.lifecycle.repository_lake import lake_name
    from lakesweep.runs.run_names import is_repository

    if name.startswith("plan-") or is_repository(name):
        return name
    try:
        context.app.runs.plan(name)
    except NotFoundError:
        return lake_name(find_repository(context, name).namespace)
    return name
