"""`lakesweep iceberg`: rewrite manifests, trim metadata, expire partitions, drop dead deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.iceberg.table_choice import Refs, TableOptions, amount, show_each, show_plans
from lakesweep.cli.options import RateLimitOptions
from lakesweep.cli.outcomes import say_failures
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.upkeep_tables import rewrite_tables, trim_table
from lakesweep.errors import IncompleteError
from lakesweep.units import format_count, parse_duration, parse_moment, parse_size

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.iceberg_rewrites import RewriteTask, TableRewriteResult
    from lakesweep.operations.upkeep.iceberg_trim import TrimResult


def rewrite_manifests(
    context: Context,
    options: TableOptions,
    refs: Refs = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size",
            metavar="SIZE",
            help="Size of a manifest; default: commit.manifest.target-size-bytes, or 8MiB.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Put the entries of many small manifests into few, sorted by partition.

    Readers open every manifest whose partitions may match, so fewer make them faster. Sequence
    numbers, row ids and all fields of entries stay as they are. Commits a new snapshot; the old
    manifests go when the snapshots before it expire.
    """
    from lakesweep.operations.upkeep.iceberg_rewrites import MergeManifests

    size = None if target_size is None else parse_size(target_size)
    _rewrite(context, options, refs, MergeManifests(size))


def remove_dangling_deletes(context: Context, options: TableOptions, refs: Refs = None) -> None:
    """Remove delete files that can hide no row of the current snapshot.

    By the exact rule: a delete of a spec without partitions applies to the whole table, a deletion
    vector to one file. Commits a new snapshot; the files go when the snapshots before it expire.
    """
    from lakesweep.operations.upkeep.iceberg_rewrites import RemoveDanglingDeletes

    _rewrite(context, options, refs, RemoveDanglingDeletes())


def expire_partitions(
    context: Context,
    options: TableOptions,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="A column of dates or timestamps.")
    ],
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Remove what is older than 90d (ago), or an RFC 3339 time.",
        ),
    ],
    refs: Refs = None,
) -> None:
    """Remove data files in which every row is older than a time, by their partition values.

    Only metadata is read. Each file is judged under its own partition spec, or by the bounds of the
    column. A file that is older only in part stays, and so does one whose age cannot be proved, or
    whose partition has no value: all are counted. Deletion vectors of removed files go with them.
    Commits a new snapshot; the files go when the snapshots before it expire.
    """
    from lakesweep.operations.upkeep.iceberg_rewrites import ExpirePartitions

    before = parse_moment(older_than, context.clock.now())
    _rewrite(context, options, refs, ExpirePartitions(column, before))


def _rewrite(
    context: Context, options: TableOptions, refs: list[str] | None, task: RewriteTask
) -> None:
    from lakesweep.operations.upkeep import iceberg_rewrites

    request = iceberg_rewrites.RewriteTablesRequest(
        refs=options.check(refs),
        catalog=options.catalog,
        lake=options.lake,
        task=task,
        overrides=frozenset(options.override or ()),
        dry_run=options.dry_run,
    )

    is_single = _is_single(options, refs)
    if options.plan:
        from lakesweep.operations.upkeep.upkeep_plans import plan_rewrites

        show_plans(context, plan_rewrites(context.app, request), single=is_single)
        return

    def confirm(preview: TableRewriteResult) -> None:
        if preview.changes and not options.dry_run:
            for table in rewrite_tables(preview):
                for line in table.lines():
                    context.output.say(line)
            context.confirm(f"Rewrite {preview.table}?", yes=options.yes, refused="not rewritten")

    def show(result: TableRewriteResult) -> int:
        context.output.result(result, *rewrite_tables(result))
        if result.dry_run and result.changes:
            context.output.say(dry_run_hint("committed"))
        elif not result.changes:
            context.output.say(f"{result.table}: nothing to do")
        return 0

    found = iceberg_rewrites.rewrite_tables(context.app, request, confirm, context.io)
    show_each(context, found, show, single=is_single)


def _is_single(options: TableOptions, refs: list[str] | None) -> bool:
    return len(refs or ()) == 1 and not (options.catalog or options.lake)


def trim_metadata(
    context: Context,
    options: TableOptions,
    pace: RateLimitOptions,
    refs: Refs = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="N",
            help="Keep this many earlier metadata files in the log, now and after later commits.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Younger files stay.")
    ] = "7d",
) -> None:
    """Delete metadata files of a table that neither it nor its log names any more.

    Most writers drop earlier metadata files from the log and leave them in storage. A file counts
    as the table's only if it carries its uuid. --keep also shortens the log, by
    write.metadata.previous-versions-max; below 20, --override short-retention is needed.
    """
    from lakesweep.operations.upkeep.iceberg_trim import TrimTablesRequest, trim_tables

    request = TrimTablesRequest(
        refs=options.check(refs),
        catalog=options.catalog,
        lake=options.lake,
        keep=keep,
        grace=parse_duration(older_than),
        rate=pace.rate,
        overrides=frozenset(options.override or ()),
        dry_run=options.dry_run,
    )

    is_single = _is_single(options, refs)
    if options.plan:
        from lakesweep.operations.upkeep.upkeep_plans import plan_trims

        show_plans(context, plan_trims(context.app, request, context.io), single=is_single)
        return

    def confirm(preview: TrimResult) -> None:
        found = amount(preview.found, preview.bytes_found, "metadata file")
        log = f"log {preview.log_before:,} to {preview.log_after:,}"
        context.output.say(f"{preview.table}: {found} to delete, {log}")
        if (preview.found or preview.log_after != preview.log_before) and not options.dry_run:
            files = format_count(preview.found, "metadata file")
            context.confirm(
                f"Delete {files} of {preview.table}?", yes=options.yes, refused="nothing was done"
            )

    def show(result: TrimResult) -> int:
        context.output.result(result, trim_table(result))
        say_failures(context, result.failures, 0)
        if result.dry_run and result.found:
            context.output.say(dry_run_hint())
        return 0 if result.is_complete else IncompleteError.exit_code

    found = trim_tables(context.app, request, confirm, context.io)
    show_each(context, found, show, single=is_single)
