"""`lakesweep paimon orphans`: delete orphan files of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, RateLimitOptions, Yes
from lakesweep.cli.paimon.table_options import SettleTime, Threads
from lakesweep.cli.render.outcome_tables import dry_run_hint, failure_lines, outcome_table
from lakesweep.cli.render.output import Output
from lakesweep.errors import IncompleteError
from lakesweep.operations.interaction import EngineName
from lakesweep.units import (
    absolute_address,
    format_count,
    format_moment,
    format_size,
    parse_duration,
    parse_moment,
)

if TYPE_CHECKING:
    from lakesweep.operations.tables.paimon_orphans import (
        CleanedOrphans,
        CleanOrphansResult,
        OrphanPreview,
    )

_SHOWN = 20


@dataclass(frozen=True)
class OrphanOptions:
    """Which orphans are deleted, and where the work runs."""

    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Only files last written before: 1d ago, or an RFC 3339 time.",
        ),
    ] = "1d"
    engine: Annotated[
        EngineName,
        typer.Option(help="Run in this process, without Java, or on Spark for very large tables."),
    ] = EngineName.LOCAL
    threads: Threads = None
    settle: SettleTime = "10s"
    dry_run: DryRun = False
    yes: Yes = False
    override: Overrides = None


def orphans(
    context: Context,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|WAREHOUSE",
            help="Address of the folder of a table, a database or a warehouse.",
            show_default=False,
        ),
    ],
    cleaning: OrphanOptions,
    pace: RateLimitOptions,
) -> None:
    """Delete files that no snapshot, tag, changelog or branch names.

    All stored files are listed first, then all references are read; if any of these cannot be read,
    no file of the table is deleted. Only files with names that Paimon writes are deleted, and only
    if they are too old to belong to a commit in progress; other names are reported. New snapshots
    are read before each batch of deletes. Empty buckets and partitions are removed too.
    """
    from lakesweep.operations.tables.paimon_orphans import CleanOrphansRequest, clean_orphans

    request = CleanOrphansRequest(
        path=absolute_address(table),
        cut=parse_moment(cleaning.older_than, context.clock.now()),
        engine=cleaning.engine,
        rate=pace.rate,
        settle=parse_duration(cleaning.settle),
        overridden=tuple(cleaning.override or ()),
        dry_run=cleaning.dry_run,
        threads=cleaning.threads,
    )

    def confirm(preview: OrphanPreview) -> None:
        _show_preview(context.output, preview)
        if preview.files and not cleaning.dry_run:
            files, size = format_count(preview.files, "file"), format_size(preview.size_bytes)
            context.confirm(f"Delete {files}, {size}?", yes=cleaning.yes)

    with clean_orphans(context.app, request, confirm, context.io) as cleaned:
        _show(context, cleaned)
    if not cleaned.result.is_complete:
        raise typer.Exit(IncompleteError.exit_code)


def _show_preview(output: Output, preview: OrphanPreview) -> None:
    tables = format_count(preview.tables, "table")
    output.say(f"orphans of {tables}, last written before {format_moment(preview.cut)}")
    for kind, files in sorted(preview.kinds.items()):
        output.say(f"  {files:>12,}  {kind}")
    output.say(f"  {preview.files:>12,}  in total, {format_size(preview.size_bytes)}")
    if preview.unknown_files:
        strange = format_count(preview.unknown_files, "file")
        output.say(f"{strange} with names that Paimon does not write, which are kept:")
        _say_lines(output, preview.unknown)
    for failure in preview.failures:
        output.say(f"{failure.table}: {failure.error.message}")


def _say_lines(output: Output, paths: Sequence[str]) -> None:
    for path in paths[:_SHOWN]:
        output.say(f"  {path}")


def _show(context: Context, cleaned: CleanedOrphans) -> None:
    result, output = cleaned.result, context.output
    if context.settings.json or result.dry_run:
        output.report(result, cleaned.files)
    else:
        _show_outcome(output, result)
    if result.dry_run and result.found:
        output.say(dry_run_hint())


def _show_outcome(output: Output, result: CleanOrphansResult) -> None:
    figures: dict[str, int | str] = {
        "found": result.found,
        "deleted": result.deleted,
        "absent": result.absent,
        "used meanwhile": result.spared,
        "failed": result.failed,
        "freed": format_size(result.bytes_deleted),
        "empty folders": result.folders_removed,
    }
    output.result(result, outcome_table(figures))
    for line in failure_lines(result.failures, result.failures_omitted):
        output.say(line)
