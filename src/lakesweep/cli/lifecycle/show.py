"""`lakesweep lifecycle show`: savings, refs, guards and files of a plan."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import absolute_repository
from lakesweep.cli.sweep.show import FileChoice, show_plan

LifecyclePlan = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="The name of a plan, or a repository for its newest plan."),
]


def show(context: Context, plan: LifecyclePlan, choice: FileChoice) -> None:
    """Show a plan: savings by rule, prefix and branch, and what refs hold; or list its files.

    Stale branches and tags that alone hold objects are listed separately. Files are streamed,
    however many there are; --verdict and --reason select among them.
    """
    from lakesweep.sweep.plan.document import PlanKind

    show_plan(context, absolute_repository(plan), PlanKind.LIFECYCLE, choice)
