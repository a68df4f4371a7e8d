"""How many commits a database takes: writers that commit as fast as they can, and a look after."""

from __future__ import annotations

from lakesweep.store.bench.load import Load
from lakesweep.store.bench.result import BenchResult
from lakesweep.store.bench.run import run_bench

__all__ = ["BenchResult", "Load", "run_bench"]
