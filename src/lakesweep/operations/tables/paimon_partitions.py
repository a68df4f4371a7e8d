"""Drop partitions of a Paimon table, by their values or because their time has passed.

Both only commit: the files are deleted when the snapshots that still show them expire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from lakesweep.app import App
from lakesweep.operations.interaction import SILENT_IO, Confirm, EngineName, Interaction
from lakesweep.operations.tables import paimon_tables
from lakesweep.operations.tables.delete_runs import DeleteRun, table_run
from lakesweep.paimon.commit.snapshot_commit import CATALOG_LOCK, check_exclusive
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.partitions import partition_drop, partition_expiry
from lakesweep.paimon.partitions.partition_expiry import (
    ExpiryRule,
    PartitionVerdict,
    judge_partitions,
)
from lakesweep.paimon.partitions.partition_specs import parse_spec, partitions_of_specs
from lakesweep.paimon.partitions.partition_times import Strategy, clock_lag
from lakesweep.paimon.partitions.snapshot_partitions import (
    Partition,
    PartitionTotals,
    SnapshotPartitions,
    list_partitions,
)
from lakesweep.runs.records import RunKind
from lakesweep.units import format_duration


@dataclass(frozen=True, slots=True)
class DropPartitionsRequest:
    """Partitions to drop by specs such as `dt=2026-01-31,hr=05`.

    A spec that names only some keys selects every partition with these values.
    """

    table: str
    specs: tuple[str, ...]
    branch: str = paimon_tables.MAIN
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False
    #: Where manifests are read.
    engine: EngineName = EngineName.LOCAL
    #: How many threads read metadata; None is as many as suit the store.
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class ExpirePartitionsRequest:
    """Partitions to drop once they are older than `keep`; what is None comes from the table.

    Times are on the wall clock of `zone`.
    """

    table: str
    keep: timedelta | None = None
    strategy: str | None = None
    formatter: str | None = None
    pattern: str | None = None
    limit: int | None = None
    zone: tzinfo = UTC
    branch: str = paimon_tables.MAIN
    overrides: frozenset[str] = frozenset()
    dry_run: bool = False
    #: Where manifests are read.
    engine: EngineName = EngineName.LOCAL
    #: How many threads read metadata; None is as many as suit the store.
    threads: int | None = None

    @property
    def options(self) -> Mapping[str, str]:
        """The table options that the request overrides."""
        given = {
            "partition.expiration-strategy": self.strategy,
            "partition.timestamp-formatter": self.formatter,
            "partition.timestamp-pattern": self.pattern,
            "partition.expiration-max-num": None if self.limit is None else str(self.limit),
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PartitionsPreview:
    """What is about to be dropped from the table at an address."""

    table: str
    totals: PartitionTotals


class PartitionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one partition holds."""

    partition: str
    files: int
    rows: int
    size_bytes: int

    @classmethod
    def of(cls, partition: Partition) -> PartitionFigures:
        return PartitionFigures(
            partition=partition.path,
            files=partition.files,
            rows=partition.rows,
            size_bytes=partition.size_bytes,
        )


class JudgedPartition(PartitionFigures, frozen=True, kw_only=True):
    """A partition, its time in UTC if it has one, and whether and why it expires."""

    time: datetime | None
    expires: bool
    reason: str


class DropPartitionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The dropped partitions with their totals; `snapshot` is None if nothing was committed."""

    dropped: list[PartitionFigures]
    partitions: int
    files: int
    rows: int
    size_bytes: int
    snapshot: int | None
    dry_run: bool


class ExpirePartitionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on every partition, the totals of those that expired, and their commits."""

    partitions: list[JudgedPartition]
    expired: PartitionTotals
    snapshots: list[int]
    dry_run: bool


def drop_partitions(
    app: App,
    request: DropPartitionsRequest,
    confirm: Confirm[PartitionsPreview],
    io: Interaction = SILENT_IO,
) -> DropPartitionsResult:
    """Drop all partitions that any of the specs selects, in one commit.

    If nothing matches, nothing is committed.
    """
    with paimon_tables.open_branch(app, request, io) as branch:
        partitioning = branch.layout.partitioning
        specs = [parse_spec(spec, partitioning) for spec in request.specs]
        found = _newest(branch, io)
        chosen = (
            partitions_of_specs(specs, partitioning, found.partitions.values()) if found else []
        )
        _confirm(branch, chosen, request, confirm, io)
        if request.dry_run or not chosen:
            return _dropped(chosen, None, dry_run=request.dry_run)
        wanted = {partition.data for partition in chosen}
        with _run(app, branch, RunKind.DROP, request.specs) as run:
            done = partition_drop.drop_partitions(
                branch, lambda _: wanted, operation="TRUNCATE", known=found, progress=io.progress
            )
            run.record(_figures(done.partitions))
        snapshot = None if done.snapshot is None else done.snapshot.id
        return _dropped(done.partitions, snapshot, dry_run=False)


def expire_partitions(
    app: App,
    request: ExpirePartitionsRequest,
    confirm: Confirm[PartitionsPreview],
    io: Interaction = SILENT_IO,
) -> ExpirePartitionsResult:
    """Drop the partitions whose time has passed.

    A partition whose time is unknown never expires.
    """
    with paimon_tables.open_branch(app, request, io) as branch:
        rule, now = _rule(branch, request, io), app.clock.now()
        found = _newest(branch, io)
        verdicts = judge_partitions(found, branch.layout.partitioning, rule, now) if found else []
        chosen = [verdict.partition for verdict in verdicts if verdict.expires]
        _notify_timeless(verdicts, io)
        if chosen and not request.dry_run:
            paimon_tables.guard_clock(app, branch.table, request.overrides)
        _confirm(branch, chosen, request, confirm, io)
        if request.dry_run or not chosen:
            return _expired(verdicts, rule, chosen, [], dry_run=request.dry_run)
        with _run(app, branch, RunKind.EXPIRE, ()) as run:
            done = list(
                partition_expiry.expire_partitions(
                    branch, rule, now, chosen, known=found, progress=io.progress
                )
            )
            gone = [partition for each in done for partition in each.partitions]
            run.record(_figures(gone))
        snapshots = [each.snapshot.id for each in done if each.snapshot is not None]
        return _expired(verdicts, rule, gone, snapshots, dry_run=False)


def _run(
    app: App, branch: PaimonBranch, kind: RunKind, specs: Sequence[str]
) -> AbstractContextManager[DeleteRun]:
    """A recorded run over a table: one at a time drops its partitions."""
    table = branch.table.address.path
    spec = {"paimon": table, "branch": branch.name, "partitions": list(specs)}
    return table_run(app, "paimon-partitions", table, kind, spec)


def _figures(partitions: Sequence[Partition]) -> Mapping[str, int]:
    """What a commit took out of the table. The files stay until snapshots expire."""
    totals = PartitionTotals.of(partitions)
    return {
        "partitions": totals.partitions,
        "dropped_files": totals.files,
        "dropped_rows": totals.rows,
        "dropped_bytes": totals.size_bytes,
    }


def _newest(branch: PaimonBranch, io: Interaction) -> SnapshotPartitions | None:
    """The partitions of the newest snapshot; None if nothing was ever committed."""
    number = branch.latest_id()
    if number is None:
        return None
    return list_partitions(branch, branch.snapshot(number), io.progress)


def _confirm(
    branch: PaimonBranch,
    chosen: Sequence[Partition],
    request: DropPartitionsRequest | ExpirePartitionsRequest,
    confirm: Confirm[PartitionsPreview],
    io: Interaction,
) -> None:
    """Check that a commit is allowed, if there will be one, and ask for confirmation."""
    if chosen and not request.dry_run:
        if CATALOG_LOCK not in request.overrides:
            check_exclusive(branch)
        if branch.layout.options.flag("metastore.partitioned-table", False):
            io.notify("warning: the metastore lists partitions too; drop them there as well")
    confirm(PartitionsPreview(branch.table.address.path, PartitionTotals.of(chosen)))


def _rule(branch: PaimonBranch, request: ExpirePartitionsRequest, io: Interaction) -> ExpiryRule:
    """The table's rule, with what the request overrides, corrected for the zone of the writers."""
    options = branch.layout.options.with_values(request.options)
    rule = replace(ExpiryRule.of(options, request.keep), zone=request.zone)
    lag = clock_lag(branch, rule.zone) if rule.strategy is Strategy.UPDATE_TIME else timedelta()
    if lag:
        io.notify(
            f"files look {format_duration(lag)} older than their commits, as if written in a zone "
            f"west of {rule.zone}; they are treated as that much younger. Set --zone to the time "
            "zone of the writers"
        )
    return replace(rule, lag=lag)


def _notify_timeless(verdicts: Sequence[PartitionVerdict], io: Interaction) -> None:
    for verdict in verdicts:
        if verdict.time is None:
            io.notify(f"{verdict.partition.path} never expires: {verdict.reason}")


def _dropped(
    partitions: Sequence[Partition], snapshot: int | None, *, dry_run: bool
) -> DropPartitionsResult:
    return DropPartitionsResult(
        **msgspec.structs.asdict(PartitionTotals.of(partitions)),
        dropped=[PartitionFigures.of(each) for each in partitions],
        snapshot=snapshot,
        dry_run=dry_run,
    )


def _expired(
    verdicts: Sequence[PartitionVerdict],
    rule: ExpiryRule,
    gone: Sequence[Partition],
    snapshots: list[int],
    *,
    dry_run: bool,
) -> ExpirePartitionsResult:
    return ExpirePartitionsResult(
        partitions=[_judged(verdict, rule.zone) for verdict in verdicts],
        expired=PartitionTotals.of(gone),
        snapshots=snapshots,
        dry_run=dry_run,
    )


def _judged(verdict: PartitionVerdict, zone: tzinfo) -> JudgedPartition:
    return JudgedPartition(
        **msgspec.structs.asdict(PartitionFigures.of(verdict.partition)),
        time=None if verdict.time is None else _to_utc(verdict.time, zone),
        expires=verdict.expires,
        reason=verdict.reason,
    )


def _to_utc(wall_clock: datetime, zone: tzinfo) -> datetime:
    try:
        return wall_clock.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:  # within hours of the ends of the calendar, which no expiry depends on
        return wall_clock.replace(tzinfo=UTC)
