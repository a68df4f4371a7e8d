"""Benchmark commits: concurrent writers at full speed, and a check of the log afterwards."""

from __future__ import annotations

from lakesweep.bench.measurement import BenchResult, run_bench
from lakesweep.bench.processes import CommitLoad

__all__ = [
    "BenchResult",
    "CommitLoad",
    "run_bench",
]
