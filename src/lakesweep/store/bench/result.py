"""The figures of a load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.store.bench.load import Load, Work


@dataclass(frozen=True, slots=True)
class BenchResult:
    """How a load went. Times are those of single commits, with all their attempts."""

    writers: int
    references: int
    commits: int
    failures: int
    seconds: float
    commits_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    attempts_per_commit: float | None
    log_complete: bool
    errors: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether every commit was done, and is in the log."""
        return self.failures == 0 and self.log_complete


def summarize(
    load: Load, works: Sequence[Work], seconds: float, *, log_complete: bool
) -> BenchResult:
    """The figures of what all writers did in so many seconds."""
    times = sorted(time for work in works for time in work.seconds)
    attempts = sum(work.attempts for work in works)
    return BenchResult(
        writers=load.writers,
        references=load.references,
        commits=len(times),
        failures=load.total - len(times),
        seconds=round(seconds, 3),
        commits_per_second=round(len(times) / max(seconds, 1e-9), 1),
        p50_ms=_share_ms(times, 0.5),
        p99_ms=_share_ms(times, 0.99),
        max_ms=_share_ms(times, 1.0),
        attempts_per_commit=round(attempts / len(times), 3) if times else None,
        log_complete=log_complete,
        errors=tuple(dict.fromkeys(error for work in works for error in work.errors)),
    )


def _share_ms(times: Sequence[float], share: float) -> float | None:
    """The least time within which this share of all commits was done."""
    if not times:
        return None
    return round(1000 * times[math.ceil(share * len(times)) - 1], 3)
