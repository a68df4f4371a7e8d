"""The option `--tolerant`: go on past what cannot be read, and tell of it at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.errors import IncompleteError

if TYPE_CHECKING:
    from lakesweep.cli.context import Context
    from lakesweep.storage.tolerance import Strict, Tolerant

TolerantFlag = Annotated[
    bool, typer.Option("--tolerant", help="Go on past what cannot be read; end with code 4.")
]


def tolerance_of(tolerant: bool) -> Strict | Tolerant:
    """What the option stands for."""
    from lakesweep.storage.tolerance import Strict, Tolerant

    return Tolerant() if tolerant else Strict()


def tell_problems(context: Context, tolerance: Strict | Tolerant) -> None:
    """Say what could not be read, and end the command with code 4 if there was anything."""
    from lakesweep.storage.tolerance import Tolerant

    if isinstance(tolerance, Tolerant) and tolerance.problems:
        for problem in dict.fromkeys(tolerance.problems):
            context.output.say(str(problem))
        raise typer.Exit(IncompleteError.exit_code)
