"""`lakesweep plan`: judge every file of a lake and store the verdicts. Deletes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import EngineChoice, Overrides
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.units import absolute_address, parse_duration, parse_moment

if TYPE_CHECKING:
    from lakesweep.sweep.judge.live_set import MatchMode
    from lakesweep.sweep.plan.document import PlanDocument


def plan(
    context: Context,
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A lake of the configuration.")],
    engine: EngineChoice,
    exact: Annotated[bool, typer.Option("--exact", help="Match files by their hashes.")] = False,
    bloom: Annotated[
        bool,
        typer.Option("--bloom", help="Match files by a Bloom filter; may keep a few orphans."),
    ] = False,
    inventory: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read an inventory instead of listing: the manifest.json of an S3 inventory, or a"
            " Parquet or CSV file with path, size and modified.",
            show_default=False,
        ),
    ] = None,
    inventory_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|DURATION",
            help="When a Parquet or CSV inventory was made; its age is added to the grace.",
            show_default=False,
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Keep files younger than this, instead of the configured grace.",
            show_default=False,
        ),
    ] = None,
    override: Overrides = None,
) -> None:
    """Find files that nothing references any more. Writes a plan and deletes nothing.

    All files of the lake are listed, everything its roots reference is marked, and each file gets
    a verdict, keep or delete, with a reason. Then guards check the result. A guard that fails stops
    lakesweep apply unless it is overridden, here or there. If a root cannot be read, everything it
    might reference is kept, the plan is written, and the command ends with code 4.
    """
    from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake

    request = PlanLakeRequest(
        lake,
        engine.engine,
        _mode(exact=exact, bloom=bloom),
        None if grace is None else parse_duration(grace),
        None if inventory is None else absolute_address(inventory),
        None if inventory_time is None else parse_moment(inventory_time, context.clock.now()),
        tuple(override or ()),
    )
    report_plan(context, context.call(plan_lake, request, context.io))


def _mode(*, exact: bool, bloom: bool) -> MatchMode:
    from lakesweep.sweep.judge.live_set import MatchMode

    if exact and bloom:
        raise UsageError("--exact and --bloom exclude each other", hint="give one of them, or none")
    if exact:
        return MatchMode.EXACT
    return MatchMode.BLOOM if bloom else MatchMode.AUTO


def report_plan(context: Context, document: PlanDocument) -> None:
    """Print a plan that was just made; end with code 4 if a root could not be read."""
    from lakesweep.cli.render.plan_tables import new_plan_tables, summary

    context.output.result(document, *new_plan_tables(document))
    for warning in document.details.get("warnings", ()):
        context.output.say(f"warning: {warning}")
    context.output.say(summary(document))
    if document.amount("delete").files:
        context.output.say(f"try: {document.commands} show {document.plan} --verdict delete")
        context.output.say(f"try: {document.commands} apply {document.plan}")
    if document.roots.incomplete:
        raise typer.Exit(IncompleteError.exit_code)
