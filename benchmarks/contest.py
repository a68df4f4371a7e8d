"""Contenders that do the same work, timed and compared with the first of them."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """What one run took; the CPU time is this process's own."""

    count: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.wall_seconds


def hold(title: str, count: int, contenders: Mapping[str, Callable[[], int]], rounds: int) -> None:
    """Print the best of `rounds` runs of each contender, which all must count `count` files."""
    print(f"\n{title}, {count:,} keys")
    print(f"{'':26}{'keys/s':>10}{'wall s':>9}{'CPU s':>8}{'ratio':>8}")
    first: Timing | None = None
    for name, action in contenders.items():
        timing = min((run(action) for _ in range(rounds)), key=lambda timing: timing.wall_seconds)
        assert timing.count == count, (name, timing.count)
        first = first or timing
        print(
            f"{name:26}{timing.rate:>10,.0f}{timing.wall_seconds:>9.2f}"
            f"{timing.cpu_seconds:>8.2f}{timing.rate / first.rate:>7.1f}x"
        )


def run(action: Callable[[], int]) -> Timing:
    wall, cpu = time.perf_counter(), _cpu_seconds()
    count = action()
    return Timing(count, time.perf_counter() - wall, _cpu_seconds() - cpu)


def per_cpu_second(action: Callable[[], int], rounds: int = 30) -> float:
    """The best rate of a short action, by CPU time."""
    best = 0.0
    for _ in range(rounds):
        start = time.process_time()
        count = action()
        best = max(best, count / (time.process_time() - start))
    return best


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
