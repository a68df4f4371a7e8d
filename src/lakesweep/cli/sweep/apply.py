"""`lakesweep apply`: carry out a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions, Yes
from lakesweep.cli.render.outcome_tables import dry_run_hint, failure_lines
from lakesweep.cli.sweep.show import PlanName
from lakesweep.errors import IncompleteError, StoppedError
from lakesweep.units import format_count, parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.lakes.apply import ApplyPlanRequest, ApplyPlanResult, ApplyPreview

_SHOWN_BRANCHES = 20

Quarantine = Annotated[
    bool,
    typer.Option("--quarantine", help="Move files to quarantine, from where they can be restored."),
]

Hold = Annotated[
    str | None,
    typer.Option(
        "--hold",
        metavar="DURATION",
        help="With --quarantine: quarantine empty --ended may delete the files after this.",
        show_default=False,
    ),
]


def apply(
    context: Context,
    plan: PlanName,
    engine: EngineChoice,
    pace: RateLimitOptions,
    quarantine: Quarantine = False,
    hold: Hold = None,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the files of a plan, except those that something references now.

    Guards come first; if one fails, the command ends with code 3 and deletes nothing. Then all
    roots are checked again: tables that are new or have changed are marked, and the files they
    reference are kept. A plan can be applied once. If a run was stopped or died, or some deletes
    failed, the same command resumes it.
    """
    from lakesweep.operations.lakes.apply import ApplyPlanRequest

    request = ApplyPlanRequest(
        plan,
        engine=engine.engine,
        rate=pace.rate,
        quarantine=quarantine,
        hold=None if hold is None else parse_duration(hold),
        overridden=tuple(override or ()),
        dry_run=dry_run,
    )
    carry_out(context, request, yes=yes)


def carry_out(context: Context, request: ApplyPlanRequest, *, yes: bool) -> None:
    """Apply a plan of any kind, and print the outcome."""
    from lakesweep.cli.render.outcome_tables import apply_tables, preview_lines, question_of
    from lakesweep.operations.lakes.apply import apply_plan

    def confirm(preview: ApplyPreview) -> None:
        for line in preview_lines(preview):
            context.output.say(line)
        if not request.dry_run:
            context.confirm(question_of(preview), yes=yes)

    result = context.call(apply_plan, request, confirm, context.io)
    context.output.result(result, *([] if request.dry_run else apply_tables(result)))
    if request.dry_run:
        context.output.say(dry_run_hint())
    elif result.quarantined:
        context.output.say(f"try: lakesweep quarantine restore {result.plan} brings them back")
    report_problems(context, result)


def report_problems(context: Context, result: ApplyPlanResult) -> None:
    """Name what failed; end with code 4 if the run was stopped or incomplete."""
    for line in failure_lines(result.failures, result.failures_omitted):
        context.output.say(line)
    unchanged = [each for each in result.branches or () if each.reason]
    for each in unchanged[:_SHOWN_BRANCHES]:
        context.output.say(f"branch {each.branch} was not changed: {each.reason}")
    if result.stopped:
        raise StoppedError(f"{result.stopped}; it deleted {format_count(result.deleted, 'file')}")
    if result.failed:
        context.output.say("the same command tries the failed files of this plan again")
    if not result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)
