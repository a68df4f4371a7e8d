"""`lakesweep paimon drop-partition` and `expire-partitions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, ManifestEngine, Overrides, Yes
from lakesweep.cli.paimon.table_options import (
    BranchName,
    TableAddress,
    Threads,
    Zone,
    parse_zone,
)
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.text_table import TextTable
from lakesweep.operations.interaction import EngineName
from lakesweep.units import absolute_address, format_count, format_size, parse_duration

if TYPE_CHECKING:
    from lakesweep.operations.tables.paimon_partitions import (
        DropPartitionsResult,
        ExpirePartitionsResult,
        JudgedPartition,
        PartitionsPreview,
    )
    from lakesweep.paimon.partitions.snapshot_partitions import PartitionTotals


def drop_partition(
    context: Context,
    table: TableAddress,
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="k=v[,k=v]…", help="Values of some or all keys.", show_default=False
        ),
    ],
    branch: BranchName = "main",
    engine: ManifestEngine = EngineName.LOCAL,
    threads: Threads = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Drop partitions by their values.

    One commit deletes every file of all partitions that any of the specs selects; a spec that names
    only some keys selects all partitions with these values. Write a value plainly, or as its folder
    spells it; an empty one as k=, and null as k=__DEFAULT_PARTITION__ or the table's own name for
    it. If nothing matches, nothing is committed. The files themselves are deleted when the
    snapshots that still show them expire.
    """
    from lakesweep.operations.tables.paimon_partitions import DropPartitionsRequest, drop_partitions

    overrides = frozenset(override or ())
    request = DropPartitionsRequest(
        absolute_address(table), tuple(specs), branch, overrides, dry_run, engine, threads
    )
    confirm = _confirm(context, yes=yes, dry_run=dry_run)
    _show_dropped(context, drop_partitions(context.app, request, confirm, context.io))


def _show_dropped(context: Context, result: DropPartitionsResult) -> None:
    columns = ("partition", "files", "rows", "size")
    rows = [
        (each.partition, f"{each.files:,}", f"{each.rows:,}", format_size(each.size_bytes))
        for each in result.dropped
    ]
    context.output.result(result, TextTable(columns, rows, numbers=frozenset(columns[1:])))
    snapshots = [] if result.snapshot is None else [result.snapshot]
    _say_end(context, result.partitions, snapshots, dry_run=result.dry_run)


ExpirationTime = Annotated[
    str | None,
    typer.Option(
        "--expiration-time", metavar="DURATION", help="Keep partitions this long, such as 7d."
    ),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="values-time|update-time",
        help="What the age is taken from.",
    ),
]
Formatter = Annotated[
    str | None,
    typer.Option("--formatter", metavar="PATTERN", help="Format of times: yyyy-MM-dd HH."),
]
Pattern = Annotated[
    str | None,
    typer.Option("--pattern", metavar="PATTERN", help="How keys form a time: '$dt $hr'."),
]
Most = Annotated[
    int | None, typer.Option("--max", min=1, metavar="N", help="Expire at most this many.")
]


def expire_partitions(
    context: Context,
    table: TableAddress,
    expiration_time: ExpirationTime = None,
    strategy: StrategyName = None,
    formatter: Formatter = None,
    pattern: Pattern = None,
    most: Most = None,
    zone: Zone = "UTC",
    branch: BranchName = "main",
    engine: ManifestEngine = EngineName.LOCAL,
    threads: Threads = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Drop the partitions whose time has passed.

    Options that are not given come from the table's own partition.expiration-time and so on. A
    partition whose value is not a time never expires, and is reported. --dry-run shows the time of
    each partition, whether it expires, and why not.
    """
    from lakesweep.operations.tables import paimon_partitions

    request = paimon_partitions.ExpirePartitionsRequest(
        table=absolute_address(table),
        keep=None if expiration_time is None else parse_duration(expiration_time.replace(" ", "")),
        strategy=strategy,
        formatter=formatter,
        pattern=pattern,
        limit=most,
        zone=parse_zone(zone),
        branch=branch,
        overrides=frozenset(override or ()),
        dry_run=dry_run,
        engine=engine,
        threads=threads,
    )
    confirm = _confirm(context, yes=yes, dry_run=dry_run)
    result = paimon_partitions.expire_partitions(context.app, request, confirm, context.io)
    _show_verdicts(context, result, request.zone)


def _show_verdicts(context: Context, result: ExpirePartitionsResult, zone: tzinfo) -> None:
    columns = ("partition", f"time ({zone})", "expires", "why")
    rows = [
        (each.partition, _local(each, zone), "yes" if each.expires else "no", each.reason)
        for each in result.partitions
    ]
    context.output.result(result, TextTable(columns, rows))
    _say_end(context, result.expired.partitions, result.snapshots, dry_run=result.dry_run)


def _local(partition: JudgedPartition, zone: tzinfo) -> str:
    if partition.time is None:
        return "-"
    return partition.time.astimezone(zone).replace(tzinfo=None).isoformat(sep=" ")


def _confirm(context: Context, *, yes: bool, dry_run: bool) -> Callable[[PartitionsPreview], None]:
    def confirm(preview: PartitionsPreview) -> None:
        totals = preview.totals
        context.output.say(f"{preview.table}: {_amounts(totals)} to drop")
        if totals.partitions and not dry_run:
            what = format_count(totals.partitions, "partition")
            question = f"Drop {what} of {preview.table}?"
            context.confirm(question, yes=yes, refused="nothing was dropped")

    return confirm


def _amounts(totals: PartitionTotals) -> str:
    return ", ".join(
        (
            format_count(totals.partitions, "partition"),
            format_count(totals.files, "file"),
            format_count(totals.rows, "row"),
            format_size(totals.size_bytes),
        )
    )


def _say_end(context: Context, partitions: int, snapshots: Sequence[int], *, dry_run: bool) -> None:
    if dry_run and partitions:
        context.output.say(dry_run_hint("dropped"))
    elif snapshots:
        numbers = ", ".join(map(str, snapshots))
        context.output.say(
            f"committed as snapshot {numbers}; the files are deleted when older snapshots expire"
        )
    else:
        context.output.say("nothing to drop, nothing committed")
