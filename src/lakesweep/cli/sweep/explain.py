"""`lakesweep explain`: why a plan keeps or deletes a file."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.sweep.show import PlanName
from lakesweep.units import absolute_address


def explain(
    context: Context,
    plan: PlanName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The address of a file.")],
) -> None:
    """Explain why a plan keeps or deletes a file, with the evidence.

    For a referenced file: the roots that reference it, and through which files. For a file to
    delete: what was checked, and what would have kept it. If the file is not in the plan, the
    command says why and ends with code 6.
    """
    from lakesweep.cli.render.explanation_tables import file_table
    from lakesweep.operations.lakes.explain import explain_file

    explanation = explain_file(context.app, plan, absolute_address(path))
    context.output.result(explanation, file_table(explanation))
