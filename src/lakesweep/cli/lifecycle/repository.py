"""`lakesweep lifecycle refs` and `entries`: what a repository and one of its commits hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.units import absolute_address, format_count, format_moment

if TYPE_CHECKING:
    from lakesweep.operations.lakes.repositories import RepositoryCommitLine, RepositoryRefLine

#: Shown of an id.
_SHORT_ID = 12

RepositoryName = Annotated[
    str,
    typer.Argument(
        metavar="REPO",
        help="A repository on the configured lakeFS server, or the address of a storage namespace"
        " with a refs dump.",
        show_default=False,
    ),
]
RefName = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Branch, tag, commit id, or the beginning of one.",
        show_default=False,
    ),
]


def absolute_repository(name: str) -> str:
    """The name of a repository or plan; a local address as an absolute one."""
    return absolute_address(name) if "/" in name else name


def refs(context: Context, repo: RepositoryName) -> None:
    """List the branches, tags and commits of a repository, the newest commits last.

    Hidden branches are included, and commits that no branch reaches any more.
    """
    from lakesweep.operations.lakes.repositories import list_refs

    found = list_refs(context.app, absolute_repository(repo))
    context.output.structs(found.lines, _text)
    branches = f"{found.branches:,} {'branch' if found.branches == 1 else 'branches'}"
    tags, commits = format_count(found.tags, "tag"), format_count(found.commits, "commit")
    context.output.say(f"{branches}, {tags}, {commits}, {found.dangling:,} of them on no branch")


def _text(line: RepositoryRefLine | RepositoryCommitLine) -> str:
    from lakesweep.operations.lakes.repositories import RepositoryRefLine

    start = f"{line.kind:<7} {line.commit[:_SHORT_ID]}"
    if isinstance(line, RepositoryRefLine):
        return f"{start}  {line.name}{'  (hidden)' if line.hidden else ''}"
    title = line.message.partition("\n")[0]
    when = format_moment(line.created.replace(microsecond=0))
    return f"{start}  {when}  {title}{'  (dangling)' if line.dangling else ''}"


def entries(context: Context, repo: RepositoryName, ref: RefName) -> None:
    """List every object of a commit: its path and its address.

    For a branch this is its HEAD, without what is staged. Addresses are shown as stored: relative
    to the namespace, or full. Every range that is read is verified by its id.
    """
    from lakesweep.cli.render.rows import EntryRows
    from lakesweep.operations.lakes.repositories import list_entries

    batches = list_entries(context.app, absolute_repository(repo), ref)
    context.output.rows(batches, EntryRows())
