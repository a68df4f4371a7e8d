"""`lakesweep init`: write a commented configuration to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.context import Context


def init(
    context: Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = Path("lakesweep.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented lakesweep.toml to start from."""
    from lakesweep.operations.setup.configuration import WriteConfigRequest, write_config

    result = write_config(WriteConfigRequest(output, force))
    context.output.result(result)
    context.output.say(f"wrote {output}; edit it, then run: lakesweep store init; lakesweep doctor")
