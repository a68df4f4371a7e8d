"""`lakesweep sweep`, `approve`, `reject`: sweep within limits, and decide about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions
from lakesweep.cli.sweep.apply import report_problems
from lakesweep.cli.sweep.show import PlanName
from lakesweep.errors import IncompleteError, RefusedError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.approval import Decision
    from lakesweep.operations.lakes.sweep import SweepResult

Why = Annotated[
    str, typer.Option("--why", metavar="TEXT", help="The reason, kept with the decision.")
]


def sweep(
    context: Context,
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A lake of the configuration.")],
    engine: EngineChoice,
    pace: RateLimitOptions,
    dry_run: DryRun = False,
) -> None:
    """Plan a lake and apply the plan within the lake's limits, without asking.

    The limits are those of [lakes.NAME.limits]. Files go to quarantine, unless the limits say
    otherwise. A plan beyond a limit, a plan with a guard, and the first plan of a lake wait for
    lakesweep approve: then this command ends with code 3, and the next call applies what was
    approved.
    """
    from lakesweep.operations.lakes.sweep import SweepRequest, sweep_lake

    request = SweepRequest(lake, engine=engine.engine, rate=pace.rate, dry_run=dry_run)
    report_sweep(context, context.call(sweep_lake, request, context.io))


def report_sweep(context: Context, result: SweepResult) -> None:
    """Show what an unattended sweep did, and end with the code for it."""
    from lakesweep.cli.render.outcome_tables import apply_tables

    tables = apply_tables(result.applied) if result.applied else ()
    context.output.result(result, *tables)
    context.output.say(_summary(result))
    _end(context, result)


def approve(context: Context, plan: PlanName, override: Overrides = None, why: Why = "") -> None:
    """Let the next unattended sweep of the lake apply a plan.

    Guards that only ask for a look, such as first-run and share, count as seen. Others must be
    fixed, or overridden by name. Files that a guard about a table withholds stay.
    """
    from lakesweep.operations.lakes.approval import DecisionRequest, approve_plan

    request = DecisionRequest(plan, why=why, overridden=tuple(override or ()))
    decision = context.call(approve_plan, request)
    _show(context, decision)
    context.output.say(f"try: lakesweep sweep {decision.lake}")


def reject(context: Context, plan: PlanName, why: Why = "") -> None:
    """Never apply a plan. The reason is kept with it."""
    from lakesweep.operations.lakes.approval import DecisionRequest, reject_plan

    _show(context, context.call(reject_plan, DecisionRequest(plan, why=why)))


def _show(context: Context, decision: Decision) -> None:
    from lakesweep.cli.render.text_table import TextTable

    rows = [
        ("lake", decision.lake),
        ("state", decision.state.value),
        ("by", decision.by),
        *([("why", decision.why)] if decision.why else []),
        *([("guards", ", ".join(decision.overridden))] if decision.overridden else []),
    ]
    context.output.result(decision, TextTable(("plan", decision.plan), rows))


def _summary(result: SweepResult) -> str:
    """What became of the plan, in a sentence."""
    amount = f"{format_count(result.delete_files, 'file')}, {format_size(result.delete_bytes)}"
    match result.outcome.value:
        case "clean":
            return f"lake {result.lake}: nothing to delete"
        case "planned":
            return f"plan {result.plan}: {amount} could be deleted"
        case "waiting":
            return f"plan {result.plan}: {amount} wait for approval"
        case _:
            by = f", approved by {result.approved_by}" if result.approved_by else ""
            return f"plan {result.plan}: applied{by}"


def _end(context: Context, result: SweepResult) -> None:
    """Say what holds the plan up, and end with the code for it."""
    from lakesweep.operations.schedules.jobs import NEEDS_APPROVAL

    for reason in result.reasons:
        context.output.say(f"{NEEDS_APPROVAL} {reason}")
    if result.outcome.value == "waiting":
        context.output.say(f"try: lakesweep show {result.plan}; lakesweep approve {result.plan}")
        raise typer.Exit(RefusedError.exit_code)
    if result.applied is not None:
        report_problems(context, result.applied)
    if not result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)
