"""The table that a command of `lakesweep paimon` is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.addresses import absolute

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.paimon.table import PaimonTable

TableAddress = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="Address of the table's folder.", show_default=False),
]

BranchName = Annotated[
    str, typer.Option("--branch", metavar="NAME", help="Of this branch of the table.")
]


def open_table(context: Context, address: str) -> PaimonTable:
    """The table at an address as people write it."""
    from lakesweep.paimon.table import PaimonTable

    return PaimonTable.open(context.app.stores, absolute(address), context.clock)
