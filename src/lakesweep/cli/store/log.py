"""`lakesweep store log`: commits of a reference, or all references of a realm."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.record_lines import commit_lines, reference_text
from lakesweep.cli.store.store_options import RealmChoice
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count, parse_moment

if TYPE_CHECKING:
    from lakesweep.operations.store.log import CommitView, ReferenceView


def log(
    context: Context,
    choice: RealmChoice,
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="[REFERENCE]",
            help="Show the commits of this reference. Without it, all references are listed.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT|TIME|DURATION",
            help="Only commits after this commit, since this time, or in the last 1d.",
            show_default=False,
        ),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Start with the oldest commit.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Show at most N.", show_default=False),
    ] = None,
) -> None:
    """Show the commits of a reference, newest first; or list all references of a realm.

    Each commit has an id, its position in the sequence, a time, an author, a message, and its
    changes. Ends with code 4 if the log no longer reaches back to where --since begins.
    """
    from lakesweep.operations.store.log import ReadLogRequest, read_log

    start = None if since is None else _parse_start(since, context.clock.now())
    if reference is None:
        _list_references(context, choice, limit)
        return
    request = ReadLogRequest(reference, choice.realm, start, oldest_first, limit)
    shown = _Shown()
    context.output.structs(shown.count_all(choice.call(context, read_log, request)), commit_lines)
    if start is None and shown.count != limit:
        context.output.say(shown.summary())


class _Shown:
    """Counts the commits shown, and remembers where the log begins."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 1

    def count_all(self, commits: Iterable[CommitView]) -> Iterator[CommitView]:
        for commit in commits:
            self._first = min(self._first, commit.seq) if self.count else commit.seq
            self.count += 1
            yield commit

    def summary(self) -> str:
        """What to say after a log was read to its end."""
        gone = f"; those before seq {self._first} are gone" if self._first > 1 else ""
        return f"{format_count(self.count, 'commit')}{gone}"


def _parse_start(text: str, now: datetime) -> int | datetime:
    return int(text) if text.isascii() and text.isdecimal() else parse_moment(text, now)


def _list_references(context: Context, choice: RealmChoice, limit: int | None) -> None:
    from lakesweep.operations.store.log import list_references

    unreadable: list[str] = []
    found = choice.call(context, list_references, choice.realm, limit=limit)
    context.output.structs(_noting(found, unreadable), reference_text)
    if unreadable:
        first = shlex.quote(unreadable[0])
        raise IncompleteError(
            f"{format_count(len(unreadable), 'reference')} cannot be read",
            hint=f"lakesweep store recover {first} --realm {choice.name(context)} --dry-run",
        )


def _noting(found: Iterable[ReferenceView], unreadable: list[str]) -> Iterator[ReferenceView]:
    for reference in found:
        if reference.problem is not None:
            unreadable.append(reference.reference)
        yield reference
