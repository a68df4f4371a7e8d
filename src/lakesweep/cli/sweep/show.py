"""`lakesweep show`: totals, guards and files of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UsageError
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.sweep.plan.stored_plan import StoredPlan

PlanName = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="A plan, as lakesweep plan named it; or a lake, for its newest plan."
    ),
]


@dataclass(frozen=True)
class FileChoice:
    """Which files of a plan are shown."""

    files: Annotated[bool, typer.Option("--files", help="Show all files, one a line.")] = False
    verdict: Annotated[
        Verdict | None, typer.Option(help="Show the files with this verdict.", show_default=False)
    ] = None
    reason: Annotated[
        Reason | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            help=f"Show the files with this reason: {', '.join(Reason)}.",
            show_default=False,
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="Show the files in the folder of this table.",
            show_default=False,
        ),
    ] = None

    @property
    def is_any(self) -> bool:
        """Whether files are wanted at all."""
        return self.files or any((self.verdict, self.reason, self.table))


def show(
    context: Context,
    plan: PlanName,
    choice: FileChoice,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write one page with pictures, for any browser.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """What a plan found: totals by reason, table, age and size, and guards; or its files.

    Files are streamed, however many there are. --verdict, --reason and --table choose among them,
    and may be given together.
    """
    from lakesweep.sweep.plan.document import PlanKind, check_kind
    from lakesweep.sweep.plan.stored_plan import open_plan

    if html is not None and choice.is_any:
        raise UsageError(
            "--html shows a whole plan, and no single files", hint="leave the other options out"
        )
    found = open_plan(context.app.stores, context.app.runs, plan)
    check_kind(found.document, PlanKind.SWEEP)
    if html is not None:
        _write_page(context, found, html)
    elif choice.is_any:
        stream_files(context, found, choice)
    else:
        _show(context, found)


def _show(context: Context, plan: StoredPlan) -> None:
    from lakesweep.cli.render.plan_tables import (
        breakdown_tables,
        facts_table,
        plan_document,
        summary,
        totals_table,
        warnings_tables,
    )

    document, state = plan.document, plan.state(context.clock.now())
    context.output.result(
        {**plan_document(document), "state": state, "run": plan.record.run},
        facts_table(document, describe_state(plan, state)),
        totals_table(document),
        *breakdown_tables(document),
        *warnings_tables(document),
    )
    context.output.say(summary(document))


def describe_state(plan: StoredPlan, state: str) -> str:
    """What became of a plan, and by whom."""
    return f"{state} by {plan.record.run}" if plan.record.run else state


def stream_files(context: Context, plan: StoredPlan, choice: FileChoice) -> None:
    """The files of a plan that were asked for."""
    from lakesweep.cli.render.rows import VerdictRows

    rows = plan.rows(choice.verdict, reason=choice.reason, table=choice.table)
    context.output.rows(rows, VerdictRows())


def _write_page(context: Context, plan: StoredPlan, file: Path) -> None:
    from lakesweep.sweep.inspect.report import render_report

    page = render_report(plan.document, plan.state(context.clock.now()))
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    context.output.result({"plan": plan.document.plan, "written": str(file)})
    context.output.say(f"wrote {file}")
