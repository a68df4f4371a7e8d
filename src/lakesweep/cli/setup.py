"""`lakesweep init` and `lakesweep doctor`: write a configuration, and check the installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import IncompleteError, UsageError

if TYPE_CHECKING:
    from lakesweep.operations.setup.doctor import HealthReport


def doctor(
    context: Context,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a small job.")
    ] = False,
) -> None:
    """Check Java, Spark, the store, roots, locations and permissions; say how to fix each problem.

    Nothing of yours is deleted: in each location of a lake, and where plans are stored, an empty
    object is written and removed. Ends with code 0 if nothing failed (warnings are not failures),
    2 if the configuration is invalid, and 4 if something else failed.
    """
    from lakesweep.operations.setup.doctor import CheckHealthRequest, check_health

    report = check_health(CheckHealthRequest(lambda: context.app, spark), context.unrecorded_io)
    context.output.result(report, _table(report))
    if not report.is_config_valid:
        raise typer.Exit(UsageError.exit_code)
    if not report.is_healthy:
        raise typer.Exit(IncompleteError.exit_code)


def _table(report: HealthReport) -> TextTable:
    rows = [(f.status.value, f.check, f.detail, f.mend or "") for f in report.checks]
    return TextTable(("", "check", "found", "how to fix it"), rows)


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
