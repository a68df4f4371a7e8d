"""`lakesweep lifecycle`: the group, and `show`, `explain` and `apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle.plan import absolute_repository, entries, plan, refs, sweep
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, RateLimitOptions, Yes
from lakesweep.cli.sweep.apply import Quarantine, carry_out
from lakesweep.cli.sweep.show import FileChoice, Html, show_plan
from lakesweep.errors import UsageError
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.plan_view import ExpiredPaths


_PLAN = "plan-20260101T000000-5c2f81aa"
app = group(
    "lifecycle",
    "List what lakeFS repositories hold, and expire it by policy.",
    examples=[
        "lakesweep lifecycle plan analytics --policy policy.json",
        "lakesweep lifecycle show analytics",
        "lakesweep lifecycle apply analytics --quarantine",
        "lakesweep lifecycle refs analytics",
    ],
)
LifecyclePlan = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="The name of a plan, or a repository for its newest plan."),
]
BytesAtOnce = Annotated[
    bool,
    typer.Option(
        "--bytes-at-once",
        help="Also delete expired objects that HEADs hold, at once, and leave their paths on the"
        " branches: readers get an error for them.",
    ),
]


def apply(
    context: Context,
    plan: LifecyclePlan,
    engine: EngineChoice,
    pace: RateLimitOptions,
    quarantine: Quarantine = False,
    bytes_at_once: BytesAtOnce = False,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete the objects of a plan, except those that something needs now.

    Guards come first; if one fails, the command ends with code 3 and deletes nothing. Then
    everything staged is read again, with all commits that are new or newly referenced by a branch
    or tag: the objects they hold are kept. The repository is checked repeatedly while objects are
    deleted. If a rule has expire_heads, expired paths are first removed from the HEAD of their
    branch, by a commit that is merged into it, and their objects are deleted by the next run. A
    branch with staged changes is not touched. A plan can be applied once. If a run was stopped or
    died, or some deletes failed, the same command resumes it.
    """
    from lakesweep.operations.lakes.apply import ApplyPlanRequest
    from lakesweep.sweep.plan.document import PlanKind

    request = ApplyPlanRequest(
        absolute_repository(plan),
        PlanKind.LIFECYCLE,
        engine.engine,
        pace.rate,
        quarantine,
        bytes_at_once,
        tuple(override or ()),
        dry_run,
    )
    carry_out(context, request, yes=yes)


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

        context.output.structs(context.call(expired_paths, name), _lines)


def _lines(each: ExpiredPaths) -> list[str]:
    """One line for each path and the rules that expire it there."""
    waits = ", after it is removed from HEADs" if each.waits_for_heads else ""
    size = "-" if each.size_bytes is None else format_size(each.size_bytes)
    return [f"{size:>7}  {matched}  ({each.address}{waits})" for matched in each.matched_rules]


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

    explanations = context.call(explain_object, absolute_repository(plan), path)
    context.output.result(explanations, *object_tables(explanations))


command(
    app,
    "refs",
    examples=[
        "lakesweep lifecycle refs analytics",
        "lakesweep lifecycle refs s3://lake/repos/analytics --json",
    ],
)(refs)


command(
    app,
    "entries",
    examples=[
        "lakesweep lifecycle entries analytics main",
        "lakesweep lifecycle entries s3://lake/repos/analytics v1 --json",
        "lakesweep lifecycle entries analytics 4a60f1411cf7",
    ],
)(entries)


command(
    app,
    "plan",
    remote=True,
    examples=[
        "lakesweep lifecycle plan analytics --policy policy.json",
        "lakesweep lifecycle plan analytics --policy policy.toml --mode incremental",
        "lakesweep lifecycle plan s3://lake/repos/old --policy policy.json --override staged",
    ],
)(plan)


command(
    app,
    "sweep",
    remote=True,
    examples=[
        "lakesweep lifecycle sweep analytics --policy policy.json",
        "lakesweep lifecycle sweep analytics --policy policy.json --dry-run",
    ],
)(sweep)


command(
    app,
    "show",
    remote=True,
    examples=[
        f"lakesweep lifecycle show {_PLAN}",
        "lakesweep lifecycle show analytics --verdict delete",
        "lakesweep lifecycle show analytics --files --json | gzip > plan.jsonl.gz",
    ],
)(show)


command(
    app,
    "explain",
    remote=True,
    examples=[
        f"lakesweep lifecycle explain {_PLAN} data/gk1v0u/cvq3a2s2o7lc73e8ufdg",
        "lakesweep lifecycle explain analytics events/2026/01/part-0.parquet --json",
    ],
)(explain)


command(
    app,
    "apply",
    remote=True,
    examples=[
        f"lakesweep lifecycle apply {_PLAN} --dry-run",
        f"lakesweep lifecycle apply {_PLAN} --quarantine --yes",
        f"lakesweep lifecycle apply {_PLAN} --override first-run --yes",
    ],
)(apply)
