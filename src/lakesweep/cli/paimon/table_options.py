"""Options of the Paimon commands: table, branch, time zone."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.options import absolute_address
from lakesweep.errors import UsageError

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.paimon.model.table import PaimonTable

TableAddress = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Address of the table's folder.", show_default=False),
]

BranchName = Annotated[
    str, typer.Option("--branch", metavar="NAME", help="Of this branch of the table.")
]


def open_table(context: Context, address: str) -> PaimonTable:
    """The table at an address as people write it."""
    from lakesweep.paimon.model.table import PaimonTable

    return PaimonTable.open(context.app.stores, absolute_address(address), context.clock)


Zone = Annotated[
    str, typer.Option("--zone", metavar="ZONE", help="Whose clock the times are on: Asia/Tokyo.")
]


def parse_zone(name: str) -> tzinfo:
    """The zone of a name such as `Asia/Tokyo`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, no name, no file of that kind
        raise UsageError(
            f"there is no time zone {name!r}", hint="write UTC, or a name such as Asia/Tokyo"
        ) from None
