"""What the commands for upkeep of tables have in common: options, and how results are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, Yes
from lakesweep.errors import UsageError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable
    from lakesweep.sweep.plan.document import PlanDocument

_Result = TypeVar("_Result")

Refs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REF…",
        help="catalog.namespace.table, or the address of a table's folder.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """Which tables, and whether to change them."""

    catalog: Annotated[
        str | None, typer.Option("--catalog", metavar="NAME", help="All tables of a catalog.")
    ] = None
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="LAKE", help="All tables of the catalogs of a lake."),
    ] = None
    plan: Annotated[
        bool, typer.Option("--plan", help="Store a plan; lakesweep apply PLAN carries it out.")
    ] = False
    dry_run: DryRun = False
    yes: Yes = False
    override: Overrides = None

    def check(self, refs: list[str] | None) -> tuple[str, ...]:
        """The tables by name; UsageError if there is none and no other choice."""
        if not (refs or self.catalog or self.lake):
            raise UsageError("no table is named", hint="give REFs, --catalog NAME or --lake LAKE")
        return tuple(refs or ())


def show_each(
    context: Context,
    found: Iterator[_Result | UnexpiredTable],
    show: Callable[[_Result], int],
    *,
    single: bool,
) -> None:
    """Show the result of each table; the exit code is the highest of all."""
    from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable

    exit_code = 0
    for each in found:
        if isinstance(each, UnexpiredTable):
            if single:
                raise each.error
            context.output.say(f"{each.table}: {each.error.message}")
            context.output.say(f"try: {each.error.hint}")
            exit_code = max(exit_code, each.error.exit_code)
        else:
            exit_code = max(exit_code, show(each))
    if exit_code:
        raise typer.Exit(exit_code)


def show_plans(
    context: Context, made: Iterator[PlanDocument | UnexpiredTable], *, single: bool
) -> None:
    """Show the plans that were stored, one of each table."""
    from lakesweep.cli.render.plan_tables import facts_table, totals_table

    def show(plan: PlanDocument) -> int:
        context.output.result(plan, facts_table(plan, "ready"), totals_table(plan))
        context.output.say(f"next: lakesweep show {plan.plan}, then lakesweep apply {plan.plan}")
        return 0

    show_each(context, made, show, single=single)


def amount(files: int, size: int, what: str = "file") -> str:
    """A number of files and their size."""
    return f"{format_count(files, what)}, {format_size(size)}"
