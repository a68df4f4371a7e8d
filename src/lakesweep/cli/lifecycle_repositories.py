"""The repository that a command of `lakesweep lifecycle` is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.addresses import absolute

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.lakefs.repository import Repository
    from lakesweep.sweep.lakefs_roots import Opener

RepositoryName = Annotated[
    str,
    typer.Argument(
        metavar="REPO",
        help="Name of a repository on the configured lakeFS server, or address of a storage"
        " namespace that holds a refs dump.",
        show_default=False,
    ),
]


def find_repository(context: Context, name: str) -> Repository:
    """The repository by its name, or at an address as people write it."""
    from lakesweep.lakefs.finding import is_address

    return context.app.repository(absolute(name) if is_address(name) else name)


def opener_of(context: Context, name: str) -> Opener:
    """Who opens a repository of the configuration, or at a whole address."""
    return lambda: context.app.repository(name)
