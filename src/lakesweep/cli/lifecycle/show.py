"""`lakesweep lifecycle show`: savings, refs, guards and files of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.repository import absolute_repository
from lakesweep.cli.sweep.show import FileChoice, Html, show_plan
from lakesweep.errors import UsageError
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.plan_view import ExpiredPaths

LifecyclePlan = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="The name of a plan, or a repository for its newest plan."),
]


def show(
    context: Context,
    plan: LifecyclePlan,
    choice: FileChoice,
    html: Html = None,
    paths: Annotated[
        bool,
        typer.Option(
            "--paths",
            help="List what is deleted by paths of the repository, with rules.",
        ),
    ] = False,
) -> None:
    """Show a plan: savings by rule, prefix and branch, and what refs hold; or list its files.

    Stale branches and tags that alone hold objects are listed separately. Files are streamed,
    however many there are; --verdict and --reason select among them. With --paths, each object to
    delete is listed with all paths that it ever had.
    """
    from lakesweep.sweep.plan.document import PlanKind

    name = absolute_repository(plan)
    if not paths:
        show_plan(context, name, PlanKind.LIFECYCLE, choice, html)
    elif choice.is_any or html is not None:
        raise UsageError("--paths lists all objects to delete", hint="leave the other options out")
    else:
        from lakesweep.operations.lakes.plan_view import expired_paths

        context.output.structs(expired_paths(context.app, name), _lines)


def _lines(each: ExpiredPaths) -> list[str]:
    """One line for each path and the rules that expire it there."""
    waits = ", after it is removed from HEADs" if each.waits_for_heads else ""
    size = "-" if each.size_bytes is None else format_size(each.size_bytes)
    return [f"{size:>7}  {matched}  ({each.address}{waits})" for matched in each.matched_rules]
