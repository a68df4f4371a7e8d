"""`lakesweep lifecycle explain`: which commits, refs and rules keep or expire an object."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import absolute_repository
from lakesweep.cli.lifecycle.show import LifecyclePlan


def explain(
    context: Context,
    plan: LifecyclePlan,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The address of an object, its key such as data/…, or a path of the repository.",
        ),
    ],
) -> None:
    """Show every commit, path, branch, tag and rule that keeps an object or lets it expire.

    A path of the repository stands for all objects it ever had. If the plan does not know the
    object, the command ends with code 6.
    """
    from lakesweep.cli.render.explanation_tables import object_tables
    from lakesweep.operations.lakes.explain import explain_object

    explanations = explain_object(context.app, absolute_repository(plan), path)
    context.output.result(explanations, *object_tables(explanations))
