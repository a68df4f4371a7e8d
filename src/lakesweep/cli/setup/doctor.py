"""`lakesweep doctor`: check the installation and the configuration, and say how to fix problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.output import TextTable
from lakesweep.errors import ConfigError, IncompleteError, UsageError
from lakesweep.operations import health_checks
from lakesweep.operations.health_checks import CheckStatus, Finding


def doctor(
    context: Context,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a small job.")
    ] = False,
) -> None:
    """Check Java, Spark, the store, roots, locations and rights; say how to mend each.

    Nothing is deleted. Where plans go to a bucket, an empty object is written there and removed.
    Ends with code 0 when nothing failed (warnings are no failures),
    2 when the configuration is wrong, and 4 when something else failed.
    """
    findings = [*_examine(context, spark=spark)]
    context.output.result({"checks": findings}, _table(findings))
    failed = [finding for finding in findings if finding.status is CheckStatus.FAIL]
    if any(finding.check == "configuration" for finding in failed):
        raise typer.Exit(UsageError.exit_code)
    if failed:
        raise typer.Exit(IncompleteError.exit_code)


def _examine(context: Context, *, spark: bool) -> Iterator[Finding]:
    yield from health_checks.check_python()
    yield from health_checks.check_extras()
    try:
        config, app = context.config, context.app
        catalogs = app.catalogs
    except ConfigError as error:
        yield Finding("configuration", CheckStatus.FAIL, error.message, error.hint)
        return
    detail = f"{len(config.lakes)} lakes, {len(catalogs)} Iceberg catalogs"
    yield Finding("configuration", CheckStatus.OK, detail)
    yield from health_checks.check_java(config)
    yield from health_checks.check_store(app)
    yield from health_checks.check_locations(app)
    yield from health_checks.check_plans(app)
    yield from health_checks.check_catalogs(app)
    yield from health_checks.check_repositories(app)
    if spark:
        yield from health_checks.check_spark(config, verbose=context.settings.verbose)


def _table(findings: Sequence[Finding]) -> TextTable:
    rows = [(f.status.value, f.check, f.detail, f.mend or "") for f in findings]
    return TextTable(("", "check", "found", "to mend it"), rows)
