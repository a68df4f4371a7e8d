"""`lakesweep store recover`: reset a reference to its newest readable commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.store_lines import commit_title
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.operations.store.store import RecoveryResult


def recover(
    context: Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="The reference whose head cannot be read.",
            show_default=False,
        ),
    ],
    choice: RealmChoice,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Accept a commit only if everything it links to is readable."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Reset a reference to the newest of its commits that can be read.

    Later commits are lost; they are shown first. A reference whose head can be read is left alone,
    and so is a head that only a newer lakesweep can read. With --deep, everything a head links to
    is read as well: indexes and linked objects.
    """
    from lakesweep.operations.store.store import RecoverReferenceRequest, recover_reference

    def confirm(preview: RecoveryResult) -> None:
        _show_losses(context, preview)
        lost = format_count(len(preview.lost), "commit")
        question = f"Give up {lost} of reference {reference}?"
        if not dry_run:
            context.confirm(question, yes=yes, refused="nothing was changed")

    request = RecoverReferenceRequest(reference, choice.realm, deep, dry_run)
    result = recover_reference(choice.app(context), request, confirm, context.io)
    context.output.result(result)
    context.output.say(_summary(result))


def _show_losses(context: Context, preview: RecoveryResult) -> None:
    for lost in preview.lost:
        context.output.say(f"lost: {lost.reason}")
    if preview.head is not None:
        context.output.say(f"newest readable commit: {commit_title(preview.head)}")


def _summary(result: RecoveryResult) -> str:
    if result.healthy:
        return f"reference {result.reference} is intact; nothing was changed"
    if result.dry_run:
        return dry_run_hint("changed")
    lost = format_count(len(result.lost), "commit")
    return f"reference {result.reference} was reset by {lost}"
