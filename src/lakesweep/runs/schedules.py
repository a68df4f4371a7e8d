"""Schedules: which job is due when, for which targets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from lakesweep.config import ScheduleSection
from lakesweep.errors import UsageError
from lakesweep.runs.due_times import AdaptiveTimes, CronTimes, DueTimes, IntervalTimes
from lakesweep.units import format_duration


class JobKind(StrEnum):
    """What a job runs. Those of `ON_DEMAND` are only run when somebody asks for it."""

    SWEEP = "sweep"
    CHECK = "check"
    MAINTAIN = "maintain"
    PAIMON_ORPHANS = "paimon-orphans"
    PAIMON_EXPIRE = "paimon-expire"
    QUARANTINE_EMPTY = "quarantine-empty"
    LIFECYCLE = "lifecycle"
    ICEBERG_EXPIRE = "iceberg-expire"
    POLICY = "policy"
    PLAN = "plan"
    APPLY = "apply"
    LIFECYCLE_PLAN = "lifecycle-plan"
    LIFECYCLE_APPLY = "lifecycle-apply"
    QUARANTINE_RESTORE = "quarantine-restore"
    QUARANTINE_RELEASE = "quarantine-release"
    REALM_PURGE = "realm-purge"
    REALM_DELETE = "realm-delete"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Jobs that have no schedule: they carry out what a person decided about one plan or one lake.
ON_DEMAND = frozenset(
    {
        JobKind.PLAN,
        JobKind.APPLY,
        JobKind.LIFECYCLE_PLAN,
        JobKind.LIFECYCLE_APPLY,
        JobKind.QUARANTINE_RESTORE,
        JobKind.QUARANTINE_RELEASE,
        JobKind.REALM_PURGE,
        JobKind.REALM_DELETE,
    }
)


class CatchUp(StrEnum):
    """What happens to due times that passed while no service ran: one run for all, or none."""

    ONCE = "once"
    NONE = "none"


class ScheduleOrigin(StrEnum):
    """Where a schedule is defined. One of the file can only be paused here."""

    FILE = "file"
    STORE = "store"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A job and when it is due. Durations are seconds, moments microseconds since 1970.

    `lake` may be a pattern such as `*`; `target` is a table, a warehouse or a repository. If a
    schedule decides itself how often it is due, `adaptive` are its shortest and longest interval.
    """

    name: str
    job: JobKind
    lake: str | None = None
    target: str | None = None
    options: dict[str, str] = {}
    cron: str | None = None
    zone: str = "UTC"
    every: int | None = None
    adaptive: tuple[int, int] | None = None
    jitter: int = 0
    timeout: int | None = None
    catch_up: CatchUp = CatchUp.ONCE
    origin: ScheduleOrigin = ScheduleOrigin.STORE
    changed_by: str = ""
    changed_at: int = 0

    def check_times(self) -> None:
        """UsageError if it makes no sense when it is due."""
        given = [each for each in (self.cron, self.every, self.adaptive) if each is not None]
        if len(given) != 1:
            raise UsageError(
                f"schedule {self.name} needs either cron or every",
                hint="--cron '0 2 * * *', or --every 6h, or --every auto",
            )
        if self.adaptive is not None:
            self._check_adaptive(*self.adaptive)
        self.times_from(_EPOCH)

    def _check_adaptive(self, shortest: int, longest: int) -> None:
        if self.job is not JobKind.SWEEP:
            raise UsageError(
                f"schedule {self.name}: only sweeps can be due by themselves",
                hint=f"a job {self.job} needs --cron, or --every 6h",
            )
        if not 0 < shortest <= longest:
            raise UsageError(
                f"schedule {self.name}: the shortest interval is longer than the longest one",
                hint="--shortest 1h --longest 7d",
            )

    def times_from(self, settled: datetime, interval: int | None = None) -> DueTimes:
        """When it is due; `settled` and `interval` count for one that decides that itself."""
        if self.cron is not None:
            return CronTimes(self.cron, self.zone)
        if self.adaptive is not None:
            return AdaptiveTimes(settled, timedelta(seconds=interval or self.adaptive[0]))
        return IntervalTimes(timedelta(seconds=self.every or 0))

    @property
    def described(self) -> str:
        """When it is due, in words."""
        if self.cron is not None:
            return self.cron if self.zone == "UTC" else f"{self.cron} {self.zone}"
        if self.adaptive is not None:
            shortest, longest = (timedelta(seconds=each) for each in self.adaptive)
            return f"every {format_duration(shortest)} to {format_duration(longest)}, by itself"
        return f"every {format_duration(timedelta(seconds=self.every or 0))}"


def schedule_of(name: str, section: ScheduleSection) -> Schedule:
    """A schedule of the configuration file."""
    return Schedule(
        name=name,
        job=JobKind(section.job),
        lake=section.lake,
        target=section.target,
        options=dict(section.options),
        cron=section.cron,
        zone=section.zone,
        every=int(section.every.total_seconds()) if isinstance(section.every, timedelta) else None,
        adaptive=(int(section.shortest.total_seconds()), int(section.longest.total_seconds()))
        if section.every == "auto"
        else None,
        jitter=int(section.jitter.total_seconds()),
        timeout=None if section.timeout is None else int(section.timeout.total_seconds()),
        catch_up=CatchUp(section.catch_up),
        origin=ScheduleOrigin.FILE,
        changed_by="the configuration file",
    )
