"""Options of the Paimon commands: table, branch, engine, threads, settle time, time zone."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated

import typer

from lakesweep.errors import UsageError

TableAddress = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Address of the table's folder.", show_default=False),
]
BranchName = Annotated[
    str, typer.Option("--branch", metavar="NAME", help="The branch of the table.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="How many threads list, read and delete; by default as many as suit the store.",
    ),
]
SettleTime = Annotated[
    str,
    typer.Option(
        "--settle",
        metavar="DURATION",
        help="Wait this long for tags and branches in creation before files are deleted.",
    ),
]
Zone = Annotated[
    str,
    typer.Option("--zone", metavar="ZONE", help="Time zone of the writers, such as Asia/Tokyo."),
]


def parse_zone(name: str) -> tzinfo:
    """The zone of a name such as `Asia/Tokyo`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown or empty name, or a file of another kind
        raise UsageError(
            f"there is no time zone {name!r}", hint="write UTC, or a name such as Asia/Tokyo"
        ) from None
