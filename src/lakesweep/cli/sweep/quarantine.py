"""`lakesweep quarantine`: list, restore or empty what `apply --quarantine` moved."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, EngineChoice, Overrides, Yes
from lakesweep.cli.render.outcome_tables import dry_run_hint, failure_lines
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import IncompleteError, UsageError
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.lakes.quarantine import (
        EmptyQuarantineRequest,
        EmptyResult,
        QuarantineView,
        RestoreResult,
    )

_PLAN = "plan-20260101T000000-5c2f81aa"
_SHOWN_FILES = 20
_OUTCOMES = (
    "found",
    "deleted",
    "absent",
    "failed",
    "changed",
    "quarantined",
    "restored",
    "held",
    "referenced",
)

app = group(
    "quarantine",
    "List, restore or delete what apply --quarantine moved to quarantine.",
    examples=[
        "lakesweep quarantine list",
        f"lakesweep quarantine restore {_PLAN}",
        f"lakesweep quarantine empty {_PLAN} --yes",
    ],
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="The plan that quarantined files, or its beginning, a run that applied it, or a lake.",
    ),
]


@command(
    app,
    "list",
    remote=True,
    examples=["lakesweep quarantine list", "lakesweep quarantine list --json"],
)
def list_held(context: Context) -> None:
    """List everything that was ever quarantined, newest first."""
    from lakesweep.operations.lakes.quarantine import list_quarantines

    found = context.call(list_quarantines)
    context.output.result(found, *([_table(found.held)] if found.held else []))
    if not found.held:
        context.output.say("nothing was ever quarantined")


def _table(held: Sequence[QuarantineView]) -> TextTable:
    rows = [
        (
            each.plan,
            each.lake,
            each.since,
            f"{each.files:,}",
            format_size(each.size_bytes),
            _state(each),
        )
        for each in held
    ]
    columns = ("plan", "lake", "since", "files", "size", "state")
    return TextTable(columns, rows, numbers=frozenset({"files", "size"}))


def _state(each: QuarantineView) -> str:
    if each.emptied_by:
        return f"emptied by {each.emptied_by}"
    restored = f"{each.restored:,} restored" if each.restored else ""
    return ", ".join(filter(None, ("held" if each.files else "", restored))) or "empty"


@command(
    app,
    "restore",
    remote=True,
    examples=[
        f"lakesweep quarantine restore {_PLAN}",
        f"lakesweep quarantine restore {_PLAN} --path s3://lake/shop/orders/data/0000.parquet",
        f"lakesweep quarantine restore {_PLAN} --table lake.shop.orders",
    ],
)
def restore(
    context: Context,
    plan: Name,
    path: Annotated[
        list[str] | None,
        typer.Option(
            "--path",
            metavar="URI",
            help="Restore only this file, by its address or its path in the lake. Repeatable.",
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="FOLDER",
            help="Restore only what was in this folder, by its address or its path in the lake.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="Restore only files of this table, as lakesweep show names it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Restore files from quarantine, each under its old key.

    If another file has the key now, it is left alone and the quarantined file stays where it is.
    The command ends with code 4 unless all files were restored. It can be repeated.
    """
    from lakesweep.operations.lakes.quarantine import restore_quarantine

    result = context.call(restore_quarantine, plan, tuple(path or ()), prefix=prefix, table=table)
    _report(context, result, "restored")
    if not result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)


@command(
    app,
    "empty",
    remote=True,
    examples=[
        f"lakesweep quarantine empty {_PLAN} --dry-run",
        f"lakesweep quarantine empty {_PLAN} --yes",
        "lakesweep quarantine empty --ended --yes",
    ],
)
def empty(
    context: Context,
    engine: EngineChoice,
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN]",
            help="The plan that quarantined files, or a run that applied it.",
            show_default=False,
        ),
    ] = None,
    ended: Annotated[
        bool, typer.Option("--ended", help="Empty every quarantine whose hold has ended.")
    ] = False,
    override: Overrides = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete permanently what a plan quarantined, except files that something references now.

    All roots are checked again, as before any delete. Referenced files stay in quarantine, and the
    command ends with code 4. If a root cannot be read, nothing is deleted, and it ends with code 4
    too. In a versioned bucket, the versions below the delete markers stay until a rule of the
    bucket removes them. Unattended sweeps set how long files are held; what apply --quarantine
    moved has no end, and --ended leaves it alone.
    """
    from lakesweep.operations.lakes.quarantine import EmptyQuarantineRequest, ended_holds

    if (plan is None) != ended:
        raise UsageError("name a plan, or use --ended", hint="lakesweep quarantine list")
    plans = context.call(ended_holds) if plan is None else (plan,)
    overridden = tuple(override or ())
    requests = [EmptyQuarantineRequest(each, engine.engine, overridden, dry_run) for each in plans]
    complete = [_empty_one(context, request, yes=yes) for request in requests]
    if not requests:
        context.output.say("no hold has ended")
    if not all(complete):
        raise typer.Exit(IncompleteError.exit_code)


def _empty_one(context: Context, request: EmptyQuarantineRequest, *, yes: bool) -> bool:
    """Empty the quarantine of one plan; whether nothing had to stay."""
    from lakesweep.operations.lakes.quarantine import EmptyDryRun, empty_quarantine

    def confirm(held: QuarantineView) -> None:
        size = f"{format_count(held.files, 'file')}, {format_size(held.size_bytes)}"
        context.output.say(f"plan {held.plan} of lake {held.lake} holds {size}")
        if not request.dry_run:
            context.confirm(f"delete {size} permanently?", yes=yes)

    result = context.call(empty_quarantine, request, confirm, context.io)
    if isinstance(result, EmptyDryRun):
        context.output.result(result)
        context.output.say(dry_run_hint())
        return True
    _report(context, result, "deleted")
    _report_referenced(context, result)
    return result.is_complete


def _report(context: Context, result: RestoreResult | EmptyResult, heading: str) -> None:
    counts = ((name, getattr(result, name)) for name in _OUTCOMES)
    rows = [(name, f"{count:,}") for name, count in counts if isinstance(count, int)]
    table = TextTable((heading, "files"), rows, numbers=frozenset({"files"}))
    context.output.result(result, table)
    for line in failure_lines(result.failures, result.failures_omitted):
        context.output.say(line)


def _report_referenced(context: Context, result: EmptyResult) -> None:
    """Name files that are referenced now, and the command that restores them."""
    paths = result.referenced_files
    if not paths:
        return
    for path in paths[:_SHOWN_FILES]:
        context.output.say(f"{path}: it is referenced now, so it stays in quarantine")
    # Of many files all are restored; the next plan finds again those that are not referenced.
    several = len(paths) > _SHOWN_FILES
    names = "" if several else "".join(f" --path {shlex.quote(path)}" for path in paths)
    context.output.say(f"try: lakesweep quarantine restore {result.plan}{names}")
