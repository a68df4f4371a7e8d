"""When schedules are due.

A cron expression means what Debian's cron makes of it, in the schedule's own time zone. When clocks
go forward, a job of a fixed time that was skipped is due right after the gap; when they go back, it
is due once. Jobs that are due every hour or more often follow the time that passes.

Other schedules are due at multiples of their interval since 1970, so every service agrees on the
due times without asking another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from lakesweep.errors import UsageError

_FIELDS = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=1)
#: How far back to look for the last due time, step by step.
_WINDOWS = tuple(timedelta(days=days) for days in (1, 8, 62, 366, 366 * 5))


@dataclass(frozen=True, slots=True)
class CronTimes:
    """The due times of a cron expression in a time zone."""

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if len(self.expression.split()) != _FIELDS:
            raise UsageError(
                f"{self.expression!r} is not a cron expression of five fields",
                hint="write minute, hour, day, month and weekday, such as '0 2 * * *'",
            )
        try:
            CronSim(self.expression, _EPOCH)
        except CronSimError as error:
            raise UsageError(
                f"{self.expression!r} is not a cron expression: {error}",
                hint="write minute, hour, day, month and weekday, such as '0 2 * * *'",
            ) from error
        self._zone_info()

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after a moment, in order, in UTC."""
        for due in CronSim(self.expression, moment.astimezone(self._zone_info())):
            # In the hour that comes twice, the first due time may lie before the moment.
            if due > moment:
                yield due.astimezone(UTC)

    def _zone_info(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(
                f"there is no time zone {self.zone!r}",
                hint="use a name such as Europe/Berlin or UTC",
            ) from error


@dataclass(frozen=True, slots=True)
class IntervalTimes:
    """Due times at multiples of an interval."""

    every: timedelta

    def __post_init__(self) -> None:
        if self.every < _SHORTEST:
            raise UsageError("a schedule is due once a second at most", hint="write 1h or 1d")

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after a moment, in order."""
        due = _EPOCH + ((moment - _EPOCH) // self.every + 1) * self.every
        while True:
            yield due
            due += self.every


@dataclass(frozen=True, slots=True)
class AdaptiveTimes:
    """Due times at an interval that changes: it is counted from the due time settled last."""

    settled: datetime
    every: timedelta

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after a moment, in order."""
        due = self.settled + max(1, (moment - self.settled) // self.every + 1) * self.every
        while True:
            yield due
            due += self.every


DueTimes = CronTimes | IntervalTimes | AdaptiveTimes


def next_due(times: DueTimes, moment: datetime) -> datetime | None:
    """The first due time after a moment; None if there is none any more."""
    return next(times.after(moment), None)


@dataclass(frozen=True, slots=True)
class PassedDue:
    """The last due time that has passed, and how many passed before it and were not settled."""

    due: datetime
    earlier: int


def passed_due(times: DueTimes, settled: datetime, now: datetime) -> PassedDue | None:
    """What is due by now; None if nothing is. Due times up to `settled` are over.

    Looks back in growing steps: a service that was down for a year need not count every minute, and
    then counts only the earlier due times of the step.
    """
    for window in _WINDOWS:
        start = max(settled, now - window)
        passed = list(takewhile(lambda due: due <= now, times.after(start)))
        if passed or start == settled:
            return PassedDue(passed[-1], len(passed) - 1) if passed else None
    return None


def upcoming(times: DueTimes, moment: datetime, count: int) -> list[datetime]:
    """The next due times, for people."""
    return list(islice(times.after(moment), count))


def start_delay(name: str, due: datetime, jitter: timedelta) -> timedelta:
    """How long after its due time a job starts: the same in every service, spread over `jitter`."""
    digest = hashlib.sha256(f"{name} {due.isoformat()}".encode()).digest()
    return jitter * (int.from_bytes(digest[:8]) / 2**64)
