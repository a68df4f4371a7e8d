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
_DEFAULT_LIMIT = 50
_DEFAULT_TIME = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: When the snapshot, or the changelog, of a number was committed, in milliseconds since 1970.
TimeOf = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What is to stay. What was committed at `cut` or later is young. UsageError if absurd."""

    retain_min: int
    retain_max: int
    cut: datetime
    limit: int

    def __post_init__(self) -> None:
        if self.retain_min < 1:
            raise _absurd(f"at least 1 must be retained, not {self.retain_min}")
        if self.retain_max < self.retain_min:
            raise _absurd(f"at most {self.retain_max} are retained, and at least {self.retain_min}")
        if self.limit < 0:
            raise UsageError(
                f"the limit of {self.limit} is less than nothing", hint="write 0 or more"
            )

    @property
    def is_bounded(self) -> bool:
        """Whether there is an upper limit on how many are retained."""
        return self.retain_max < _UNLIMITED

    @property
    def cut_millis(self) -> int:
        """The cut, in the unit of commits; a fraction counts as a whole millisecond."""
        return -(-(self.cut - _EPOCH) // timedelta(milliseconds=1))


@dataclass(frozen=True, slots=True)
class RetentionOverrides:
    """What a call says of retention; what is None comes from the table."""

    retain_min: int | None = None
    retain_max: int | None = None
    cut: datetime | None = None
    limit: int | None = None

    def over(self, retention: RetentionLimits) -> RetentionLimits:
        """A table's retention with what the call says otherwise."""
        given = {name: getattr(self, name) for name in self.__slots__}
        return replace(retention, **{name: it for name, it in given.items() if it is not None})


#: Everything as the table's options say.
NO_OVERRIDES = RetentionOverrides()


def snapshot_retention(options: Options, now: datetime) -> RetentionLimits:
    """What the options of a table say of its snapshots."""
    return RetentionLimits(
        retain_min=options.integer("snapshot.num-retained.min", _DEFAULT_MIN),
        retain_max=options.integer("snapshot.num-retained.max", _UNLIMITED),
        cut=_ago(now, options.duration("snapshot.time-retained", _DEFAULT_TIME)),
        limit=options.integer("snapshot.expire.limit", _DEFAULT_LIMIT),
    )


def changelog_retention(options: Options, now: datetime) -> RetentionLimits:
    """What the options of a table say of its changelogs: as of its snapshots where they do not."""
    snapshots = snapshot_retention(options, now)
    time = options.duration("changelog.time-retained")
    return RetentionLimits(
        retain_min=options.integer("changelog.num-retained.min", snapshots.retain_min),
        retain_max=options.integer("changelog.num-retained.max", snapshots.retain_max),
        cut=snapshots.cut if time is None else _ago(now, time),
        limit=snapshots.limit,
    )


def is_decoupled(options: Options) -> bool:
    """Whether changelogs outlive their snapshots: whether they are to stay longer in any way."""
    longest = datetime.max.replace(tzinfo=UTC)  # from here every duration can be told apart
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
    """The oldest snapshot that stays, of those that are there, ascending; None if there are none.

    A snapshot goes by its age only if the next one is older than the cut: until then it was what
    the table held. `consumers` are the snapshots that they want next.
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
    """The oldest changelog that stays; the newest always does. Counted from the latest snapshot."""
    if not ids:
        return None
    upper = min(_spared(latest_snapshot, retention, ids[0]), *consumers, ids[-1])
    oldest = latest_snapshot - retention.retain_max + 1
    for id_ in ids:
        if oldest <= id_ < upper and _is_young(id_, retention, time_of):
            return id_
    return _from(ids, upper)


def _spared(latest: int, retention: RetentionLimits, earliest: int) -> int:
    """The first number that stays whatever its age."""
    return min(latest - retention.retain_min + 1, earliest + retention.limit)


def _is_young(id_: int, retention: RetentionLimits, time_of: TimeOf) -> bool:
    return time_of(id_) >= retention.cut_millis


def _from(ids: Sequence[int], number: int) -> int:
    """The first that is there from a number on: none is between, so the same ones go."""
    return ids[bisect_left(ids, number)]


def _ago(now: datetime, duration: timedelta | None) -> datetime:
    try:
        return now - (duration or timedelta())
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _absurd(message: str) -> UsageError:
    return UsageError(message, hint="write retain-min 1 or more, and retain-max no less than it")
