"""Add the commands over the tables of a catalog or a lake to the root."""

from __future__ import annotations

import typer

from lakesweep.cli.commands import command
from lakesweep.cli.upkeep import policy_commands
from lakesweep.cli.upkeep.scan import scan


def add_upkeep(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(
        app,
        "scan",
        examples=[
            "lakesweep scan prod",
            "lakesweep scan --catalog prod --html scan.html",
            "lakesweep scan prod --small-file-size 64MiB --json",
        ],
    )(scan)
    app.add_typer(policy_commands.app)
