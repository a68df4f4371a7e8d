"""`lakesweep show` and `explain`: a plan's totals, guards and files, and the evidence for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UsageError
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.sweep.plan.document import PlanKind


PlanName = Annotated[
    str, typer.Argument(metavar="PLAN", help="The name of a plan, or a lake for its newest plan.")
]


@dataclass(frozen=True)
class FileChoice:
    """Which files of a plan to list."""

    files: Annotated[bool, typer.Option("--files", help="List all files, one per line.")] = False
    verdict: Annotated[
        Verdict | None, typer.Option(help="List the files with this verdict.", show_default=False)
    ] = None
    reason: Annotated[
        Reason | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            help=f"List the files with this reason: {', '.join(Reason)}.",
            show_default=False,
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="List the files in the folder of this table.",
            show_default=False,
        ),
    ] = None

    @property
    def is_any(self) -> bool:
        """Whether to list files at all."""
        return self.files or any((self.verdict, self.reason, self.table))


Html = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write a report page with charts to this file or address; - is standard output.",
        show_default=False,
    ),
]


def show(context: Context, plan: PlanName, choice: FileChoice, html: Html = None) -> None:
    """Show a plan: totals by reason, table, age and size, and guards; or list its files.

    Files are streamed, however many there are. --verdict, --reason and --table can be combined.
    """
    from lakesweep.operations.lakes.plan_view import plan_kind
    from lakesweep.sweep.plan.document import PlanKind

    is_expiry = context.call(plan_kind, plan) is PlanKind.EXPIRY
    show_plan(context, plan, PlanKind.EXPIRY if is_expiry else PlanKind.SWEEP, choice, html)


def show_plan(
    context: Context, plan: str, kind: PlanKind, choice: FileChoice, html: str | None
) -> None:
    """Show a plan of any kind, write its page, or stream the files that were asked for."""
    if html is None:
        _show(context, plan, kind, choice)
    elif choice.is_any:
        raise UsageError(
            "--html shows a whole plan, and no single files", hint="leave the other options out"
        )
    else:
        _write_page(context, plan, kind, html)


def _show(context: Context, plan: str, kind: PlanKind, choice: FileChoice) -> None:
    from lakesweep.cli.render.plan_tables import stored_plan_tables, summary
    from lakesweep.cli.render.rows import VerdictRows
    from lakesweep.operations.lakes.plan_view import PlanFilesRequest, plan_files, view_plan

    if choice.is_any:
        request = PlanFilesRequest(plan, kind, choice.verdict, choice.reason, choice.table)
        context.output.rows(context.call(plan_files, request), VerdictRows())
        return
    view = context.call(view_plan, plan, kind)
    context.output.result(view, *stored_plan_tables(view))
    context.output.say(summary(view))


def _write_page(context: Context, plan: str, kind: PlanKind, place: str) -> None:
    from lakesweep.operations.lakes.plan_view import plan_page, view_plan

    view = context.call(view_plan, plan, kind)
    context.write_page(place, plan_page(view), {"plan": view.plan})


def explain(
    context: Context,
    plan: PlanName,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The address of a file, or its path in the lake.")
    ],
) -> None:
    """Explain why a plan keeps or deletes a file, with the evidence.

    For a referenced file: the roots that reference it, and through which files. For a file to
    delete: what was checked, and what would have kept it. If the file is not in the plan, the
    command says why and ends with code 6.
    """
    from lakesweep.cli.render.explanation_tables import file_table
    from lakesweep.operations.lakes.explain import explain_file

    explanation = context.call(explain_file, plan, path)
    context.output.result(explanation, file_table(explanation))
