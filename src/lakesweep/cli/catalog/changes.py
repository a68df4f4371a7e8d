"""`lakesweep catalog changes`: every commit of a realm, in pages that continue each other."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command
from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.units import format_moment, parse_moment

if TYPE_CHECKING:
    from lakesweep.operations.store.changes import ChangePage

#: A moment begins with a year or is a duration; a cursor is neither.
_MOMENT = re.compile(r"\d{4}-.*|\d+(\.\d+)?[a-z]+")

Since = Annotated[
    str | None,
    typer.Option(
        metavar="CURSOR|TIME|DURATION",
        help="Only commits after this cursor, since this time, or in the last 1d.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Show at most N.")]


def add_changes(app: typer.Typer) -> None:
    """Add the command that follows a realm."""
    examples = ["lakesweep catalog changes --since 1d", "lakesweep catalog changes --json"]
    command(app, "changes", examples=examples)(changes)


def changes(context: Context, choice: RealmChoice, since: Since = None, limit: Limit = 100) -> None:
    """Show every commit of every reference of a realm, oldest first.

    The result names a cursor: the same command with `--since CURSOR` shows what was committed
    after it, each commit once. Ends with code 4 if a log no longer reaches back that far.
    """
    from lakesweep.operations.store.changes import ReadChangesRequest, read_changes

    request = ReadChangesRequest(_start(since, context.clock.now()), limit, choice.realm)
    page = read_changes(choice.app(context), request)
    context.output.result(page, _table(page))
    context.output.say(f"{'there are more; ' if page.more else ''}next: --since {page.next}")


def _start(text: str | None, now: datetime) -> str | datetime | None:
    return parse_moment(text, now) if text is not None and _MOMENT.fullmatch(text) else text


def _table(page: ChangePage) -> TextTable:
    rows = [
        [format_moment(each.committed), each.reference, str(each.seq), each.author, each.message]
        for each in page.changes
    ]
    return TextTable(("committed", "reference", "seq", "author", "message"), rows)
