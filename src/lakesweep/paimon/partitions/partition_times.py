"""The age of a partition, by its values or by its newest file.

Entries record creation times in the writer's local time, snapshots record commit times in
UTC, and a commit follows shortly after its last file. So if files look hours older than their
commits, they were written in a zone further west and are younger than they look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice

import pyarrow.compute as pc

from lakesweep.errors import MissingError, UsageError
from lakesweep.paimon.manifests.entries import ADD
from lakesweep.paimon.manifests.named_files import manifests_of, read_entries
from lakesweep.paimon.model.binary_row import Value
from lakesweep.paimon.model.data_types import DataTypeRoot, Timestamp
from lakesweep.paimon.model.partitioning import Partitioning, cast_text, wall_clock
from lakesweep.paimon.model.snapshots import ZONES_APART, PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.partitions.time_patterns import UnparsableError, make_pattern, parse_usual

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone


class Strategy(StrEnum):
    """What the age of a partition is taken from."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The time of a partition on the wall clock of the zone, or why it has none."""

    time: datetime | None
    reason: str | None = None


def update_time(newest_millis: int | None, lag: timedelta = timedelta()) -> PartitionTime:
    """When the newest file of a partition was created, on the writer's clock plus `lag`."""
    if newest_millis is None:
        return PartitionTime(None, "one of its files has no creation time")
    return PartitionTime(_EPOCH + timedelta(milliseconds=newest_millis) + lag)


@dataclass(frozen=True)
class ValuesTime:
    """Reads times out of partition values.

    The text is the first value, or `pattern` with values in place of `$key`; it is parsed by
    `formatter`, a Java pattern, or else as `y-M-d` or `y-M-d H:m:s`. A first value that is a date
    or a time needs neither. Local timestamps are those of `zone`.
    """

    partitioning: Partitioning
    formatter: str | None = None
    pattern: str | None = None
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        """Refuse invalid patterns before anything is read."""
        if self.formatter is not None:
            make_pattern(self.formatter)
        if self.pattern is not None and not self._named_keys():
            keys = ", ".join(f"${name}" for name in self.partitioning.names)
            raise UsageError(
                f"the pattern {self.pattern!r} names no key", hint=f"name one of {keys}"
            )

    def time_of(self, values: Sequence[Value]) -> PartitionTime:
        """The time of a partition of these values."""
        needed = self.partitioning.names if self.pattern else self.partitioning.names[:1]
        pairs = zip(self.partitioning.names, values, strict=True)
        missing = [name for name, value in pairs if value is None and name in needed]
        if missing:
            return PartitionTime(None, f"{missing[0]} is null")
        try:
            return PartitionTime(self._time(values))
        except UnparsableError as error:
            return PartitionTime(None, str(error))

    def _time(self, values: Sequence[Value]) -> datetime:
        typed = None if self.pattern else self._typed(values[0])
        if typed is not None:
            return typed
        text = self._text(values)
        return make_pattern(self.formatter).parse(text) if self.formatter else parse_usual(text)

    def _typed(self, value: Value) -> datetime | None:
        kind = self.partitioning.keys[0].type
        if kind.root is DataTypeRoot.DATE:
            assert isinstance(value, int)
            return _shifted(timedelta(days=value))
        if not isinstance(value, Timestamp):
            return None
        moment = wall_clock(value)
        if kind.root is DataTypeRoot.TIMESTAMP_LTZ:
            moment = moment.replace(tzinfo=UTC).astimezone(self.zone).replace(tzinfo=None)
        return moment

    def _text(self, values: Sequence[Value]) -> str:
        texts = dict(zip(self.partitioning.names, self._texts(values), strict=True))
        if self.pattern is None:
            return texts[self.partitioning.names[0]]
        return self._keys_regex().sub(lambda found: texts[found[1]], self.pattern)

    def _texts(self, values: Sequence[Value]) -> list[str]:
        keys = self.partitioning.keys
        return [
            cast_text(value, key.type, self.zone) for key, value in zip(keys, values, strict=True)
        ]

    def _keys_regex(self) -> re.Pattern[str]:
        """The longest names first, so that `$day` is not read as `$d` and `ay`."""
        names = sorted(self.partitioning.names, key=len, reverse=True)
        return re.compile(r"\$(" + "|".join(map(re.escape, names)) + ")")

    def _named_keys(self) -> list[str]:
        return self._keys_regex().findall(self.pattern or "")


def _shifted(since_epoch: timedelta) -> datetime:
    try:
        return _EPOCH + since_epoch
    except OverflowError:
        raise UnparsableError("it is outside the years 1 to 9999") from None


#: How many commits that added files are compared, and how many commits are read at most.
_COMMITS, _MOST_READ = 3, 20
#: Zones differ by multiples of this; a shorter lag is the time that a commit takes.
_LEAST = timedelta(minutes=15)


def clock_lag(branch: PaimonBranch, zone: tzinfo) -> timedelta:
    """By how many minutes files look older than their commits, by the newest; or 0."""
    lag = min(islice(_lags(branch, zone), _COMMITS), default=timedelta())
    minutes = -(-lag // timedelta(minutes=1))
    return min(timedelta(minutes=minutes), ZONES_APART) if lag >= _LEAST else timedelta()


def _lags(branch: PaimonBranch, zone: tzinfo) -> Iterator[timedelta]:
    for number in reversed(branch.snapshot_ids()[-_MOST_READ:]):
        with suppress(MissingError):  # it has expired
            snapshot = branch.snapshot(number)
            made = update_time(_newest_millis(branch, snapshot)).time
            if made is not None:
                yield _moment(snapshot) - made.replace(tzinfo=zone)


def _newest_millis(branch: PaimonBranch, snapshot: PaimonSnapshot) -> int | None:
    """When the newest file that a snapshot adds was created; None if it adds none."""
    name, size = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    newest = [
        pc.max(batch["creation_time"].filter(pc.equal(batch["kind"], ADD))).as_py()
        for manifest in manifests_of(branch.table, name, size)
        if manifest.added
        for batch in read_entries(branch.table, manifest, embedded_indexes=False)
    ]
    return max((millis for millis in newest if millis is not None), default=None)


def _moment(snapshot: PaimonSnapshot) -> datetime:
    return datetime.fromtimestamp(snapshot.time_millis / 1000, UTC)
