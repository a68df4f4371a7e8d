"""`lakesweep store recover`: reset a reference to its newest readable commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.render.store_lines import CommitLine
from lakesweep.cli.store.store_options import RealmChoice, check_reference
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.store import Realm
    from lakesweep.store.backends.rows import Reference
    from lakesweep.store.commits.recovery import Diagnosis


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
        typer.Option("--deep", help="Only take a commit if all that it leads to can be read, too."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Let a reference go back to the newest of its commits that can be read.

    What was committed after that one is lost; it is shown first. A reference whose head can be read
    is left alone, and so is a head that only a newer lakesweep can read. With --deep, all that a
    head leads to is read as well: its indexes and linked objects.
    """
    from lakesweep.store.commits.recovery import reset_reference

    check_reference(reference)
    realm = choice.open_realm(context)
    diagnosis = _diagnose(context, realm, reference, deep=deep)
    _tell(context, diagnosis)
    if diagnosis.lost and not dry_run:
        lost = format_count(len(diagnosis.lost), "commit")
        question = f"Give up {lost} of reference {reference}?"
        context.confirm(question, yes=yes, refused="nothing was changed")
        reset_reference(realm.references, diagnosis)
    context.output.result(_document(diagnosis, dry_run=dry_run))
    context.output.say(_end(diagnosis, dry_run=dry_run))


def _diagnose(context: Context, realm: Realm, reference: str, *, deep: bool) -> Diagnosis:
    from lakesweep.store.commits.recovery import diagnose
    from lakesweep.store.realms.reachability import reach

    if not deep:
        return diagnose(realm.references, realm.stored, reference)
    with context.progress.task("read", unit="objects") as task:

        def read_all(candidate: Reference) -> None:
            for _ in reach(realm, [candidate], history=1):
                task.advance(1)

        return diagnose(realm.references, realm.objects, reference, read_all)


def _tell(context: Context, diagnosis: Diagnosis) -> None:
    for lost in diagnosis.lost:
        context.output.say(f"lost: {lost.reason}")
    if diagnosis.lost and diagnosis.target is not None:
        context.output.say(f"newest that can be read: {CommitLine.of(diagnosis.target).title()}")


def _document(diagnosis: Diagnosis, *, dry_run: bool) -> dict[str, object]:
    return {
        "reference": diagnosis.reference.name,
        "healthy": not diagnosis.lost,
        "recovered": bool(diagnosis.lost) and not dry_run,
        "lost": [{"commit": str(each.id), "reason": each.reason} for each in diagnosis.lost],
        "head": None if diagnosis.target is None else CommitLine.of(diagnosis.target),
        "dry_run": dry_run,
    }


def _end(diagnosis: Diagnosis, *, dry_run: bool) -> str:
    name = diagnosis.reference.name
    if not diagnosis.lost:
        return f"reference {name} is in order; nothing was changed"
    if dry_run:
        return "nothing was changed; run the same with --yes in place of --dry-run"
    return f"reference {name} went back by {format_count(len(diagnosis.lost), 'commit')}"
