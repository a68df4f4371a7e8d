"""Expire partitions: drop those whose retention time has passed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

from lakesweep.errors import UsageError
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import Partitioning
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.partitions.partition_drop import DroppedPartitions, drop_partitions
from lakesweep.paimon.partitions.partition_times import (
    PartitionTime,
    Strategy,
    ValuesTime,
    update_time,
)
from lakesweep.paimon.partitions.snapshot_partitions import Partition, SnapshotPartitions
from lakesweep.progress import SILENT, Progress
from lakesweep.units import format_count

_MOST = 100


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """Which partitions expire: those whose time is more than `keep` ago, at most `most`.

    `batch` is how many are dropped in one commit, None for all. Times are on the clock of `zone`.
    Files are younger than they claim by `lag`; see `clock_lag`.
    """

    keep: timedelta
    strategy: Strategy = Strategy.VALUES_TIME
    formatter: str | None = None
    pattern: str | None = None
    most: int = _MOST
    batch: int | None = None
    zone: tzinfo = UTC
    lag: timedelta = timedelta()

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if self.keep < timedelta():
            raise UsageError("the expiration time is negative", hint="write 7d")
        if self.most < 1 or (self.batch is not None and self.batch < 1):
            raise UsageError("at least one partition must be allowed to expire", hint="--max 100")

    @classmethod
    def of(cls, options: Options, keep: timedelta | None = None) -> Self:
        """The rule of the table's options; `keep` is needed if they have no expiration time."""
        kept = keep if keep is not None else options.duration("partition.expiration-time")
        if kept is None:
            raise UsageError(
                "the table has no expiration time for partitions",
                hint="add --expiration-time 30d, or set partition.expiration-time",
            )
        batch = options.integer("partition.expiration-batch-size", 0)
        return cls(
            keep=kept,
            strategy=_strategy(options.text("partition.expiration-strategy")),
            formatter=options.text("partition.timestamp-formatter"),
            pattern=options.text("partition.timestamp-pattern"),
            most=options.integer("partition.expiration-max-num", _MOST),
            batch=batch or None,
        )


def _strategy(text: str | None) -> Strategy:
    if text is None:
        return Strategy.VALUES_TIME
    try:
        return Strategy(text)
    except ValueError:
        raise UsageError(
            f"the expiration strategy {text!r} is not supported",
            hint=f"choose one of {', '.join(Strategy)} with --strategy",
        ) from None


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """Whether a partition expires, and why; `time` is on the clock of the rule's zone."""

    partition: Partition
    time: datetime | None
    expires: bool
    reason: str


def judge_partitions(
    survey: SnapshotPartitions, partitioning: Partitioning, rule: ExpiryRule, now: datetime
) -> list[PartitionVerdict]:
    """The verdict on each partition, in the order in which they expire: that of their values."""
    cut = _cut(now, rule)
    times = _Times(partitioning, rule)
    judged = [
        _verdict(partition, times.of(partition), cut) for partition in survey.partitions.values()
    ]
    judged.sort(key=lambda verdict: _order(verdict.partition, partitioning))
    return list(_limited(judged, rule.most))


def expire_partitions(
    branch: PaimonBranch,
    rule: ExpiryRule,
    now: datetime,
    chosen: Sequence[Partition],
    *,
    known: SnapshotPartitions | None = None,
    progress: Progress = SILENT,
) -> Iterator[DroppedPartitions]:
    """Drop the chosen partitions, one commit a batch.

    Each is judged again on the snapshot that the commit follows; one that was updated stays.
    """
    size = rule.batch or max(len(chosen), 1)
    naming = branch.layout.partitioning
    for at in range(0, len(chosen), size):
        batch = {partition.data for partition in chosen[at : at + size]}

        def still_expired(
            survey: SnapshotPartitions, batch: Collection[bytes] = batch
        ) -> list[bytes]:
            everyone = replace(rule, most=max(len(survey.partitions), 1))
            verdicts = judge_partitions(survey, naming, everyone, now)
            expired = [verdict.partition.data for verdict in verdicts if verdict.expires]
            return [data for data in expired if data in batch]

        yield drop_partitions(branch, still_expired, known=known, progress=progress)


def _cut(now: datetime, rule: ExpiryRule) -> datetime:
    try:
        return now.astimezone(rule.zone).replace(tzinfo=None) - rule.keep
    except OverflowError:
        return datetime.min  # noqa: DTZ901 - a wall clock without a zone


class _Times:
    """The times of partitions by the rule's strategy."""

    def __init__(self, partitioning: Partitioning, rule: ExpiryRule) -> None:
        self._strategy = rule.strategy
        self._lag = rule.lag
        if not partitioning.keys:
            raise UsageError("the table is not partitioned", hint="it has no partitions to expire")
        if rule.strategy is Strategy.VALUES_TIME:
            self._values = ValuesTime(partitioning, rule.formatter, rule.pattern, rule.zone)

    def of(self, partition: Partition) -> PartitionTime:
        if self._strategy is Strategy.UPDATE_TIME:
            return update_time(partition.newest_millis, self._lag)
        return self._values.time_of(partition.values)


def _verdict(partition: Partition, time: PartitionTime, cut: datetime) -> PartitionVerdict:
    if time.time is None:
        return PartitionVerdict(
            partition, None, expires=False, reason=time.reason or "it has no time"
        )
    expires = cut > time.time
    side = "before" if expires else "not before"
    return PartitionVerdict(partition, time.time, expires, f"{side} {cut:%Y-%m-%d %H:%M:%S}")


def _order(partition: Partition, partitioning: Partitioning) -> bytes:
    """Java's order of the values as strings."""
    texts = (partitioning.text(value, at) for at, value in enumerate(partition.values))
    return ",".join(texts).encode("utf-16-be", errors="surrogatepass")


def _limited(verdicts: Sequence[PartitionVerdict], most: int) -> Iterator[PartitionVerdict]:
    left = most
    for verdict in verdicts:
        if verdict.expires and left == 0:
            limit, verb = format_count(most, "partition"), "expires" if most == 1 else "expire"
            yield replace(
                verdict, expires=False, reason=f"{verdict.reason}, but at most {limit} {verb}"
            )
        else:
            left -= verdict.expires
            yield verdict
