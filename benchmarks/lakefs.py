"""Ranges and lifecycle runs of lakeFS repositories, beside what cannot be saved.

    python -m benchmarks.lakefs                     # 1,000 commits, 1,000,000 distinct entries
    python -m benchmarks.lakefs --commits 300       # fewer
    python -m benchmarks.lakefs --engine local      # runs in this process, without Spark

First one range, decoded on one core. The limit is fetching the blocks, their checksums
(google-crc32c, if it is installed, else ours) and inflating them (cramjam): no reader can do with
less. rocksdict, if it is installed, reads the same file through RocksDB, keys and values only.

Then runs over a repository: the first reads all ranges and folds them, the next one finds them in
the cache. Core-seconds are those of all processes together, Java and Python workers too. Memory is
that of the driver's Python at its peak, above what it had before; it is told for a tenth of the
commits as well.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import lakefs_ranges
from benchmarks.lakefs_repository import Made, Shape, make, range_files, run
from lakesweep.config import SparkSection
from lakesweep.lakefs.ranges.reader import decode_range
from lakesweep.lifecycle.judge.engine import LifecycleEngine, LocalLifecycleEngine
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session
from lakesweep.storage.stores import Stores
from tests.process_tree import descendants


@dataclass
class Watched:
    """What a piece of work took."""

    seconds: float = 0.0
    core_seconds: float = 0.0
    driver_mb: float = 0.0


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if "VmHWM" in line).split()[1]) / 1024


def cpu_seconds() -> float:
    """What this process and all below it have used, and those that ended meanwhile."""
    ticks = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, stat[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def watched() -> Iterator[Watched]:
    found = Watched()
    Path("/proc/self/clear_refs").write_text("5")
    memory, start, cpu = peak_mb(), time.perf_counter(), cpu_seconds()
    yield found
    found.seconds = time.perf_counter() - start
    found.core_seconds = cpu_seconds() - cpu
    found.driver_mb = peak_mb() - memory


def tell(name: str, entries: int, took: Watched, limit: Watched) -> None:
    rate = entries / took.core_seconds / 1e6
    print(
        f"{name:32} {took.seconds:7.1f} s {took.core_seconds:7.1f} core-s {rate:6.2f} M entries/"
        f"core-s {limit.core_seconds / took.core_seconds:5.2f} x the limit"
        f"   driver +{took.driver_mb:.0f} MB",
        flush=True,
    )


def read_all(made: Made, *, decode: bool) -> Watched:
    """Read every range here: all of it, or no more than its blocks."""
    spent = Watched()
    for id_, data in range_files(made):
        work = lakefs_ranges.limit(data)
        start = time.process_time()
        if decode:
            decode_range("", data, id_)
        else:
            work()
        spent.core_seconds += time.process_time() - start
    spent.seconds = spent.core_seconds
    return spent


def contest(shape: Shape, engine: LifecycleEngine, rounds: int) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = make(shape, folder / "repo")
        entries, distinct = made.entries, shape.distinct
        print(f"\n{shape.commits} commits, {entries:,} entries in ranges, {distinct:,} distinct")
        limit = read_all(made, decode=False)
        tell("fetch + CRC + snappy, one core", entries, limit, limit)
        tell("decoding alone, one core", entries, read_all(made, decode=True), limit)
        with watched() as first:
            run(made, engine, folder, 0)
        tell(f"first run, {engine.name}", entries, first, limit)
        later = []
        for number in range(1, rounds + 1):
            with watched() as each:
                run(made, engine, folder, number)
            tell(f"next run, {engine.name}", entries, each, limit)
            later.append(each)
        by_clock = first.seconds / min(each.seconds for each in later)
        by_cores = first.core_seconds / min(each.core_seconds for each in later)
        print(
            f"the first takes {by_clock:.1f} times as long as the next ({by_cores:.1f} in core-s)"
        )


@contextmanager
def opened(name: str) -> Iterator[LifecycleEngine]:
    if name == "local":
        yield LocalLifecycleEngine(Stores())
        return
    from lakesweep.lifecycle.judge.spark_engine import SparkLifecycleEngine

    with open_session(SparkSection()) as spark:
        spark.range(10).count()
        yield SparkLifecycleEngine(spark, register(spark))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time ranges of lakeFS, and lifecycle runs.")
    parser.add_argument("--entries", type=int, default=200_000, help="in the one range")
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    arguments = parser.parse_args()
    lakefs_ranges.contest(arguments.entries, max(arguments.rounds, 5))
    with opened(arguments.engine) as engine:
        for commits in (arguments.commits // 10, arguments.commits):
            contest(Shape(commits), engine, arguments.rounds)


if __name__ == "__main__":
    main()
