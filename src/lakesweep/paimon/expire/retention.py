"""Which snapshots or changelogs are retained: the arithmetic alone.

Numbers mean what they mean in Paimon. Those below `latest - retain_max + 1` expire regardless
of age; of the others, those older than the cut do. The newest `retain_min` stay, and so does
everything from the first snapshot that a consumer still needs. At most `limit` numbers expire
at a time, counted from the oldest and including gaps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from lakesweep.errors import UsageError
from lakesweep.paimon.model.options import Options

_UNLIMITED = 2**31 - 1
_DEFAULT_MIN = 10
#: As in Paimon before 1.0 and in its C++ client; newer Java versions expire 50 at a time.
_DEFAULT_LIMIT = 10
_DEFAULT_TIME = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: When the snapshot, or the changelog, of a number was committed, in milliseconds since 1970.
TimeOf = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What to retain. Commits at `cut` or later are young. UsageError if invalid."""

    retain_min: int
    retain_max: int
    cut: datetime
    limit: int

    def __post_init__(self) -> None:
        if self.retain_min < 1:
            raise _invalid(f"at least 1 must be retained, not {self.retain_min}")
        if self.retain_max < self.retain_min:
            raise _invalid(
                f"retain-max {self.retain_max} is less than retain-min {self.retain_min}"
            )
        if self.limit < 0:
            raise UsageError(f"the limit is negative: {self.limit}", hint="write 0 or more")

    @property
    def is_bounded(self) -> bool:
        """Whether there is an upper limit on how many are retained."""
        return self.retain_max < _UNLIMITED

    @property
    def cut_millis(self) -> int:
        """The cut in milliseconds, the unit of commit times, rounded up."""
        return -(-(self.cut - _EPOCH) // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True)
class RetentionOverrides:
    """Retention given by the caller; None comes from the table."""

    retain_min: int | None = None
    retain_max: int | None = None
    cut: datetime | None = None
    limit: int | None = None

    def over(self, retention: RetentionLimits) -> RetentionLimits:
        """A table's retention with these values in place of its own."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return replace(retention, **{name: it for name, it in given.items() if it is not None})


#: Everything as the table's options say.
NO_OVERRIDES = RetentionOverrides()


def snapshot_retention(options: Options, now: datetime) -> RetentionLimits:
    """The retention of snapshots by the table's options."""
    return RetentionLimits(
        retain_min=options.integer("snapshot.num-retained.min", _DEFAULT_MIN),
        retain_max=options.integer("snapshot.num-retained.max", _UNLIMITED),
        cut=_ago(now, options.duration("snapshot.time-retained", _DEFAULT_TIME)),
        limit=options.integer("snapshot.expire.limit", _DEFAULT_LIMIT),
    )


def changelog_retention(options: Options, now: datetime) -> RetentionLimits:
    """The retention of changelogs by the table's options; by default that of snapshots."""
    snapshots = snapshot_retention(options, now)
    time = options.duration("changelog.time-retained")
    return RetentionLimits(
        retain_min=options.integer("changelog.num-retained.min", snapshots.retain_min),
        retain_max=options.integer("changelog.num-retained.max", snapshots.retain_max),
        cut=snapshots.cut if time is None else _ago(now, time),
        limit=snapshots.limit,
    )


def is_decoupled(options: Options) -> bool:
    """Whether changelogs outlive their snapshots: whether any limit retains them longer."""
    longest = datetime.max.replace(tzinfo=UTC)  # before this, any two durations differ
    snapshots, changelogs = (
        retention(options, longest) for retention in (snapshot_retention, changelog_retention)
    )
    return (
        changelogs.retain_max > snapshots.retain_max
        or changelogs.retain_min > snapshots.retain_min
        or changelogs.cut < snapshots.cut
    )


def first_kept_snapshot(
    ids: Sequence[int], retention: RetentionLimits, time_of: TimeOf, consumers: Iterable[int] = ()
) -> int | None:
    """The oldest of ascending snapshots that is retained; None if there are no snapshots.

    A snapshot is old only if the next one is older than the cut: until then it was the state of
    the table. `consumers` are the snapshots that consumers read next.
    """
    if not ids:
        return None
    upper = min(_spared(ids[-1], retention, ids[0]), *consumers, ids[-1])
    oldest = ids[-1] - retention.retain_max + 1
    for id_, following in pairwise(ids):
        if oldest <= id_ < upper and _is_young(following, retention, time_of):
            return id_
    return _from(ids, upper)


def first_kept_changelog(
    ids: Sequence[int],
    latest_snapshot: int,
    retention: RetentionLimits,
    time_of: TimeOf,
    consumers: Iterable[int] = (),
) -> int | None:
    """The oldest changelog that is retained, counted from the latest snapshot.

    The newest changelog always is.
    """
    if not ids:
        return None
    upper = min(_spared(latest_snapshot, retention, ids[0]), *consumers, ids[-1])
    oldest = latest_snapshot - retention.retain_max + 1
    for id_ in ids:
        if oldest <= id_ < upper and _is_young(id_, retention, time_of):
            return id_
    return _from(ids, upper)


def _spared(latest: int, retention: RetentionLimits, earliest: int) -> int:
    """The first number that is retained regardless of age."""
    return min(latest - retention.retain_min + 1, earliest + retention.limit)


def _is_young(id_: int, retention: RetentionLimits, time_of: TimeOf) -> bool:
    return time_of(id_) >= retention.cut_millis


def _from(ids: Sequence[int], number: int) -> int:
    """The first existing number from a number on; there is none between, so the same expire."""
    return ids[bisect_left(ids, number)]


def _ago(now: datetime, duration: timedelta | None) -> datetime:
    try:
        return now - (duration or timedelta())
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _invalid(message: str) -> UsageError:
    return UsageError(
        message, hint="set retain-min to 1 or more, and retain-max to at least retain-min"
    )
