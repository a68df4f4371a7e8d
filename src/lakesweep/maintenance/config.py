"""The settings of maintenance: what is retained, and how much load the database may get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from math import inf

from lakesweep.clock import micros
from lakesweep.errors import ConfigError
from lakesweep.hashing.bloom_filter import MIN_FPP
from lakesweep.hashing.bloom_sizing import BloomPolicy
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.commits.references import RECENT_POINTERS
from lakesweep.units import parse_duration

#: The shortest grace time: clocks differ, and commits take a while.
MIN_GRACE = timedelta(minutes=5)
MIN_REFERENCES = 100
MIN_OBJECTS = 100_000
MIN_RETAINED_RUNS = 2
DEFAULT_EXPECTED_REFERENCE_COUNT = MIN_REFERENCES
DEFAULT_EXPECTED_OBJ_COUNT = MIN_OBJECTS
DEFAULT_COUNT_FROM_LAST_RUN_MULTIPLIER = 1.1
DEFAULT_INITIALIZED_FPP = 0.00001
DEFAULT_MAX_ACCEPTABLE_FPP = 0.00005
DEFAULT_RETAINED_RUNS = 50
DEFAULT_CREATED_AT_GRACE_TIME_STRING = "3h"
DEFAULT_CREATED_AT_GRACE_TIME = parse_duration(DEFAULT_CREATED_AT_GRACE_TIME_STRING)
DEFAULT_DELETE_BATCH_SIZE = 1_000
#: More threads and connections than any database can use.
MAX_WORKERS = 1_000
#: Longer spans would reach back beyond the first representable date.
MAX_SPAN = timedelta(days=36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRetentionRule:
    """How far back the logs of some references are kept; None means the default."""

    commits: int | None = None
    age: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """The settings of maintenance.

    Filters are sized for the expected counts, or for `count_from_last_run_multiplier` times the
    largest count of an earlier run, with a false-positive rate of `filter_initialized_fpp`. A full
    filter gets a second one beside it, up to `filter_bytes` in total. If their rate then reaches
    `max_acceptable_filter_fpp`, nothing is deleted.

    Rows written within `created_at_grace_time` before a run are never deleted. Of each log, the
    newest `keep_commits` are kept, and all commits that were the head within `keep_age`. `history`
    overrides both for references that match a pattern; the first match wins.
    """

    expected_reference_count: int = DEFAULT_EXPECTED_REFERENCE_COUNT
    expected_obj_count: int = DEFAULT_EXPECTED_OBJ_COUNT
    count_from_last_run_multiplier: float = DEFAULT_COUNT_FROM_LAST_RUN_MULTIPLIER
    filter_initialized_fpp: float = DEFAULT_INITIALIZED_FPP
    max_acceptable_filter_fpp: float = DEFAULT_MAX_ACCEPTABLE_FPP
    filter_bytes: int = 2**30
    retained_runs: int = DEFAULT_RETAINED_RUNS
    created_at_grace_time: timedelta = DEFAULT_CREATED_AT_GRACE_TIME
    object_scan_rate_limit_per_second: float | None = None
    reference_scan_rate_limit_per_second: float | None = None
    delete_batch_size: int = DEFAULT_DELETE_BATCH_SIZE
    scan_workers: int = 2
    keep_commits: int = RECENT_POINTERS + 1
    keep_age: timedelta = timedelta(days=7)
    history: Mapping[str, LogRetentionRule] = field(default_factory=dict)

    @property
    def grace(self) -> timedelta:
        """The grace time in effect."""
        return max(self.created_at_grace_time, MIN_GRACE)

    def history_of(self, reference: str, now: datetime) -> LogRetention:
        """How far back the log of a reference is kept by a run that starts now.

        A commit that was the head within the grace time is always kept: a reader may still use it,
        or hold a position in the log.
        """
        fitting = (
            kept for pattern, kept in self.history.items() if fnmatchcase(reference, pattern)
        )
        own = next(fitting, LogRetentionRule())
        commits = self.keep_commits if own.commits is None else own.commits
        age = self.keep_age if own.age is None else own.age
        return LogRetention(commits, micros(now - max(age, self.grace)))

    @property
    def filter_policy(self) -> BloomPolicy:
        """How filters are sized, and which false-positive rate forbids deletes."""
        return BloomPolicy(
            fpp=self.filter_initialized_fpp,
            acceptable_fpp=self.max_acceptable_filter_fpp,
            multiplier=self.count_from_last_run_multiplier,
        )

    def check(self) -> None:
        """ConfigError if a setting is invalid."""
        for name, value in self._problems().items():
            if value:
                raise ConfigError(f"[maintenance] {name} {value}")

    def _problems(self) -> Mapping[str, str | None]:
        return {
            "expected_reference_count": _at_least(self.expected_reference_count, MIN_REFERENCES),
            "expected_obj_count": _at_least(self.expected_obj_count, MIN_OBJECTS),
            "count_from_last_run_multiplier": _above(self.count_from_last_run_multiplier, 1),
            "filter_initialized_fpp": self._fpp_problem(),
            "max_acceptable_filter_fpp": _rate(self.max_acceptable_filter_fpp),
            "filter_bytes": _above(self.filter_bytes, 0),
            "retained_runs": _at_least(self.retained_runs, MIN_RETAINED_RUNS),
            "created_at_grace_time": _span(self.created_at_grace_time),
            "object_scan_rate_limit_per_second": _limit(self.object_scan_rate_limit_per_second),
            "reference_scan_rate_limit_per_second": _limit(
                self.reference_scan_rate_limit_per_second
            ),
            "delete_batch_size": _above(self.delete_batch_size, 0),
            "scan_workers": _above(self.scan_workers, 0)
            or _at_most(self.scan_workers, MAX_WORKERS),
            "keep_commits": _above(self.keep_commits, 0),
            "keep_age": _span(self.keep_age),
            "history": next(filter(None, map(_retention, self.history.values())), None),
        }

    def _fpp_problem(self) -> str | None:
        if self.filter_initialized_fpp >= self.max_acceptable_filter_fpp:
            return "must be less than max_acceptable_filter_fpp"
        return _rate(self.filter_initialized_fpp)


_NO_RATE = "must be 0 or more; 0 means no limit"


def _at_least(value: int, floor: int) -> str | None:
    return None if value >= floor else f"must be at least {floor}"


def _at_most(value: int, ceiling: int) -> str | None:
    return None if value <= ceiling else f"must be at most {ceiling}"


def _above(value: float, floor: float) -> str | None:
    return None if floor < value < inf else f"must be a number greater than {floor}"


def _rate(value: float) -> str | None:
    return None if MIN_FPP <= value <= 1 else f"must be at least {MIN_FPP} and at most 1"


def _span(value: timedelta) -> str | None:
    if value < timedelta(0):
        return "must not be negative"
    return None if value <= MAX_SPAN else f"must be at most {MAX_SPAN.days}d"


def _limit(value: float | None) -> str | None:
    return None if value is None or 0 <= value < inf else _NO_RATE


def _retention(kept: LogRetentionRule) -> str | None:
    commits = None if kept.commits is None else _above(kept.commits, 0)
    return commits or (None if kept.age is None else _span(kept.age))
