"""`lakesweep store log`: commits of a reference, or all references of a realm."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.store_lines import CommitLine, ReferenceHeadLine
from lakesweep.cli.store.store_options import RealmChoice, check_reference
from lakesweep.errors import IncompleteError, StoreError, WrongTypeError
from lakesweep.units import format_count, parse_moment

if TYPE_CHECKING:
    from lakesweep.store import Commit, Realm, Stored
    from lakesweep.store.backends.rows import Reference

_PAGE = 100


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
            help="Only what came after this commit, or since this time, or in the last 1d.",
            show_default=False,
        ),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest commit.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="No more than so many.", show_default=False),
    ] = None,
) -> None:
    """The commits of a reference, newest first; or all references of a realm.

    Each commit has an id, its place in the sequence, a time, an author, a message, and what it
    changed. If the log no longer reaches back to where --since begins, it says so and ends with
    code 4.
    """
    start = None if since is None else _start(since, context.clock.now())
    if reference is None:
        _list_references(context, choice.open_realm(context), limit)
        return
    check_reference(reference)
    realm = choice.open_realm(context)
    commits = islice(realm.log(reference, start, oldest_first=oldest_first), limit)
    shown = _Shown()
    context.output.lines(shown.lines(commits))
    if start is None and shown.count != limit:
        context.output.say(shown.end())


class _Shown:
    """Counts the commits that are shown, and remembers where the log begins."""

    def __init__(self) -> None:
        self.count = 0
        self._first = 1

    def lines(self, commits: Iterable[Stored[Commit]]) -> Iterator[CommitLine]:
        for commit in commits:
            self._first = min(self._first, commit.value.seq) if self.count else commit.value.seq
            self.count += 1
            yield CommitLine.of(commit)

    def end(self) -> str:
        """What to say of a log that was read to its end."""
        gone = f"; those before seq {self._first} are gone" if self._first > 1 else ""
        return f"{format_count(self.count, 'commit')}{gone}"


def _start(text: str, now: datetime) -> int | datetime:
    return int(text) if text.isascii() and text.isdecimal() else parse_moment(text, now)


def _list_references(context: Context, realm: Realm, limit: int | None) -> None:
    lines = _Heads(realm)
    context.output.lines(islice(lines.read(), limit))
    if lines.unreadable:
        first = shlex.quote(lines.unreadable[0])
        raise IncompleteError(
            f"{format_count(len(lines.unreadable), 'reference')} cannot be read",
            hint=f"lakesweep store recover {first} --realm {realm.name} --dry-run",
        )


class _Heads:
    """Reads the heads of all references, and remembers which cannot be read."""

    def __init__(self, realm: Realm) -> None:
        self._realm = realm
        self.unreadable: list[str] = []

    def read(self) -> Iterator[ReferenceHeadLine]:
        references = self._realm.references.list()
        while page := list(islice(references, _PAGE)):
            yield from self._lines(page)

    def _lines(self, page: Sequence[Reference]) -> Iterator[ReferenceHeadLine]:
        heads = self._fetch_page(page)
        for each in page:
            head = None if each.pointer is None else heads.get(each.pointer)
            yield (
                self._line(each)
                if head is None
                else ReferenceHeadLine.of(each, CommitLine.of(head))
            )

    def _fetch_page(self, page: Sequence[Reference]) -> Mapping[int, Stored[Commit]]:
        pointers = [each.pointer for each in page if each.pointer is not None]
        try:
            return {head.id: head for head in self._fetch(pointers) if head is not None}
        except StoreError:
            return {}  # one spoils it for the others; each is read by itself then

    def _line(self, reference: Reference) -> ReferenceHeadLine:
        """The line of one reference, whatever is wrong with it."""
        if reference.pointer is None:
            return ReferenceHeadLine.of(reference, None)
        try:
            [head] = self._fetch([reference.pointer])
        except WrongTypeError:
            return ReferenceHeadLine.of(reference, None)  # a pointer to something else than commits
        except StoreError as error:
            return self._broken(reference, error.message)
        if head is None:
            return self._broken(reference, "the head is missing")
        return ReferenceHeadLine.of(reference, CommitLine.of(head))

    def _fetch(self, ids: Sequence[int]) -> Sequence[Stored[Commit] | None]:
        from lakesweep.store.commits.commit import fetch_commits

        return fetch_commits(self._realm.objects, ids)

    def _broken(self, reference: Reference, problem: str) -> ReferenceHeadLine:
        self.unreadable.append(reference.name)
        return ReferenceHeadLine(reference.name, str(reference.pointer), None, None, problem)
