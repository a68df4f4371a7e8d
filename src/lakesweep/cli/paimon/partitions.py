"""`lakesweep paimon drop-partition` and `expire-partitions`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Overrides, Yes
from lakesweep.cli.paimon.table_options import (
    BranchName,
    TableAddress,
    Zone,
    open_table,
    parse_zone,
)
from lakesweep.cli.render.output import TextTable
from lakesweep.units import (
    format_count,
    format_duration,
    format_moment,
    format_size,
    parse_duration,
)

if TYPE_CHECKING:
    from lakesweep.paimon.model.table import PaimonBranch
    from lakesweep.paimon.partitions.partition_expiry import ExpiryRule, PartitionVerdict
    from lakesweep.paimon.partitions.snapshot_partitions import Partition, SnapshotPartitions

_CATALOG_LOCK = "catalog-lock"
_REFUSED = "nothing was dropped"


def drop_partition(
    context: Context,
    table: TableAddress,
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="k=v[,k=v]…", help="Values of some keys or of all.", show_default=False
        ),
    ],
    branch: BranchName = "main",
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Drop partitions by their values.

    One commit deletes every file of all partitions that any of the specs means; a spec that names
    some keys means all partitions with these values. Write a value as it is, or as its folder
    writes it; an empty one as k=, and null as k=__DEFAULT_PARTITION__ or what the table calls it.
    Where nothing matches nothing is committed. The files themselves go when the snapshots that
    still show them expire.
    """
    from lakesweep.paimon.partitions.partition_drop import drop_partitions
    from lakesweep.paimon.partitions.partition_specs import parse_spec, partitions_of_specs

    at = open_table(context, table).find_branch(branch)
    naming = at.layout.partitioning
    parsed = [parse_spec(spec, naming) for spec in specs]
    survey = _survey(context, at)
    chosen = partitions_of_specs(parsed, naming, survey.partitions.values()) if survey else []
    _say_totals(context, at, chosen)
    if dry_run or not chosen:
        _show_dropped(context, chosen, None, dry_run=dry_run)
        return
    _confirm(context, at, chosen, yes=yes, override=override)
    wanted = {partition.data for partition in chosen}
    done = drop_partitions(
        at,
        lambda _: wanted,
        operation="TRUNCATE",
        known=survey,
        progress=context.progress,
    )
    number = None if done.snapshot is None else done.snapshot.id
    _show_dropped(context, done.partitions, number, dry_run=False)


def _show_dropped(
    context: Context, partitions: Sequence[Partition], snapshot: int | None, *, dry_run: bool
) -> None:
    from lakesweep.paimon.partitions.snapshot_partitions import partition_totals

    rows = [(each.path, *_figures(each)) for each in partitions]
    columns = ("partition", "files", "rows", "size")
    document = {
        "dropped": [_document(partition) for partition in partitions],
        **partition_totals(partitions),
        "snapshot": snapshot,
        "dry_run": dry_run,
    }
    context.output.result(document, TextTable(columns, rows, numbers=frozenset(columns[1:])))
    _say_end(context, partitions, [] if snapshot is None else [snapshot], dry_run=dry_run)


ExpirationTime = Annotated[
    str | None,
    typer.Option("--expiration-time", metavar="DURATION", help="Keep partitions this long, as 7d."),
]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="values-time|update-time", help="What their age is counted from."
    ),
]
Formatter = Annotated[
    str | None,
    typer.Option("--formatter", metavar="PATTERN", help="How times are written: yyyy-MM-dd HH."),
]
Pattern = Annotated[
    str | None,
    typer.Option("--pattern", metavar="PATTERN", help="How keys make a time: '$dt $hr'."),
]
Most = Annotated[
    int | None, typer.Option("--max", min=1, metavar="N", help="Let at most this many expire.")
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
    dry_run: DryRun = False,
    yes: Yes = False,
    override: Overrides = None,
) -> None:
    """Drop the partitions whose time has passed.

    What is not given here is as the table's options partition.expiration-time and so on say. A
    partition whose value cannot be read as a time never expires, and is told. --dry-run shows the
    time of each partition, whether it expires, and why not.
    """
    from lakesweep.paimon.partitions.partition_expiry import expire_partitions as expire
    from lakesweep.paimon.partitions.partition_expiry import judge_partitions

    at = open_table(context, table).find_branch(branch)
    given = {
        "partition.expiration-strategy": strategy,
        "partition.timestamp-formatter": formatter,
        "partition.timestamp-pattern": pattern,
        "partition.expiration-max-num": None if most is None else str(most),
    }
    rule = _with_lag(context, at, _rule(at, expiration_time, given, zone))
    now = context.clock.now()
    survey = _survey(context, at)
    naming = at.layout.partitioning
    verdicts = judge_partitions(survey, naming, rule, now) if survey else []
    chosen = [verdict.partition for verdict in verdicts if verdict.expires]
    _say_unreadable(context, verdicts)
    _say_totals(context, at, chosen)
    if dry_run or not chosen:
        _show_verdicts(context, verdicts, rule, chosen, [], dry_run=dry_run)
        return
    _confirm(context, at, chosen, yes=yes, override=override)
    done = list(expire(at, rule, now, chosen, known=survey, progress=context.progress))
    gone = [partition for each in done for partition in each.partitions]
    snapshots = [each.snapshot.id for each in done if each.snapshot is not None]
    _show_verdicts(context, verdicts, rule, gone, snapshots, dry_run=False)


def _rule(
    branch: PaimonBranch, keep: str | None, given: dict[str, str | None], zone: str
) -> ExpiryRule:
    from dataclasses import replace

    from lakesweep.paimon.partitions.partition_expiry import ExpiryRule

    said = {name: value for name, value in given.items() if value is not None}
    kept = None if keep is None else parse_duration(keep.replace(" ", ""))
    rule = ExpiryRule.of(branch.layout.options.with_values(said), kept)
    return replace(rule, zone=parse_zone(zone))


def _with_lag(context: Context, branch: PaimonBranch, rule: ExpiryRule) -> ExpiryRule:
    """The rule, with what commits tell of the zone where files were written."""
    from dataclasses import replace

    from lakesweep.paimon.partitions.partition_times import Strategy, clock_lag

    lag = clock_lag(branch, rule.zone) if rule.strategy is Strategy.UPDATE_TIME else timedelta()
    if lag:
        context.output.say(
            f"files look {format_duration(lag)} older than their commits, as if written in a zone "
            f"west of {rule.zone}: they count as so much younger; --zone says where it was"
        )
    return replace(rule, lag=lag)


def _show_verdicts(
    context: Context,
    verdicts: Sequence[PartitionVerdict],
    rule: ExpiryRule,
    gone: Sequence[Partition],
    snapshots: Sequence[int],
    *,
    dry_run: bool,
) -> None:
    from lakesweep.paimon.partitions.snapshot_partitions import partition_totals

    rows = [
        (each.partition.path, _local(each), "yes" if each.expires else "no", each.reason)
        for each in verdicts
    ]
    document = {
        "partitions": [_judged(verdict, rule) for verdict in verdicts],
        "expired": partition_totals(gone),
        "snapshots": snapshots,
        "dry_run": dry_run,
    }
    columns = ("partition", f"time ({rule.zone})", "expires", "why")
    context.output.result(document, TextTable(columns, rows))
    _say_end(context, gone, snapshots, dry_run=dry_run)


def _judged(verdict: PartitionVerdict, rule: ExpiryRule) -> dict[str, Any]:
    time = verdict.time
    return {
        **_document(verdict.partition),
        "time": None if time is None else format_moment(time.replace(tzinfo=rule.zone)),
        "expires": verdict.expires,
        "reason": verdict.reason,
    }


def _local(verdict: PartitionVerdict) -> str:
    return "-" if verdict.time is None else verdict.time.isoformat(sep=" ")


def _say_unreadable(context: Context, verdicts: Sequence[PartitionVerdict]) -> None:
    for verdict in verdicts:
        if verdict.time is None:
            context.output.say(f"{verdict.partition.path} never expires: {verdict.reason}")


def _survey(context: Context, branch: PaimonBranch) -> SnapshotPartitions | None:
    """The partitions of the newest snapshot; None where nothing was ever committed."""
    from lakesweep.paimon.partitions.snapshot_partitions import list_partitions

    number = branch.latest_id()
    if number is None:
        return None
    return list_partitions(branch, branch.snapshot(number), context.progress)


def _confirm(
    context: Context,
    branch: PaimonBranch,
    chosen: Sequence[Partition],
    *,
    yes: bool,
    override: list[str] | None,
) -> None:
    from lakesweep.paimon.commit.snapshot_commit import check_exclusive

    if _CATALOG_LOCK not in (override or ()):
        check_exclusive(branch)
    if branch.layout.options.flag("metastore.partitioned-table", False):
        context.output.say("warning: the metastore lists partitions too; drop them there as well")
    what = format_count(len(chosen), "partition")
    context.confirm(f"Drop {what} of {branch.table.address.path}?", yes=yes, refused=_REFUSED)


def _say_totals(context: Context, branch: PaimonBranch, chosen: Sequence[Partition]) -> None:
    from lakesweep.paimon.partitions.snapshot_partitions import partition_totals

    sums = partition_totals(chosen)
    parts = [
        format_count(sums["partitions"], "partition"),
        format_count(sums["files"], "file"),
        format_count(sums["rows"], "row"),
        format_size(sums["size_bytes"]),
    ]
    context.output.say(f"{branch.table.address.path}: {', '.join(parts)} to drop")


def _say_end(
    context: Context, chosen: Sequence[Partition], snapshots: Sequence[int], *, dry_run: bool
) -> None:
    if dry_run and chosen:
        context.output.say("nothing was dropped; run the same with --yes in place of --dry-run")
    elif snapshots:
        numbers = ", ".join(map(str, snapshots))
        context.output.say(f"committed as snapshot {numbers}; files go when older ones expire")
    else:
        context.output.say("nothing to drop, nothing committed")


def _figures(partition: Partition) -> tuple[str, str, str]:
    return f"{partition.files:,}", f"{partition.rows:,}", format_size(partition.size_bytes)


def _document(partition: Partition) -> dict[str, Any]:
    return {
        "partition": partition.path,
        "files": partition.files,
        "rows": partition.rows,
        "size_bytes": partition.size_bytes,
    }
