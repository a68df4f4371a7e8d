"""Listing a local tree on Spark: ours against a walk in one process and Spark's own listing.

    python -m benchmarks.spark_listing                    # 200,000 files
    python -m benchmarks.spark_listing --files 1000000
    python -m benchmarks.spark_listing --flat             # all of them in one folder

The tree is read once before the clock starts. The contenders take turns; the best of the rounds
counts, the first round of each is shown as cold. `binaryFile` is Spark's own source of files: it
lists all of them, into the driver's memory, when it is opened, and no row is read here. The CPU
time is that of the best round, in this process, in Java, and in Python below it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.list_local import list_location, make_tree, walk
from lakesweep.config import SparkSection
from lakesweep.spark import datasets
from lakesweep.spark.data_source import LISTED_SCHEMA
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import map_items
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session
from lakesweep.storage.datasets.writer import PART_SCHEMA, write_parts
from lakesweep.storage.listing.locations import Piece, cut_locations, list_pieces

COUNT = pa.schema([("rows", pa.int64())])


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the listing of a local tree on Spark.")
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flat", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        tree = Path(folder, "lake")
        make_flat(tree, arguments.files) if arguments.flat else make_tree(tree, arguments.files)
        start = time.perf_counter()
        with open_session(SparkSection()) as spark:
            print(f"Spark starts in {time.perf_counter() - start:.1f} s")
            contest(spark, str(tree), arguments.files, arguments.rounds)


def make_flat(root: Path, files: int) -> None:
    root.mkdir()
    for index in range(files):
        (root / f"{index * 7919 % files:08}-0a1b2c3d-aaaa-bbbb-cccc-0123456789ab.parquet").touch()


def contest(spark: SparkSession, folder: str, files: int, rounds: int) -> None:
    access = register(spark)
    numbers = count()

    def target() -> str:
        return f"{Path(folder).parent}/written-{next(numbers)}"

    contenders: dict[str, Callable[[], int]] = {
        "scandir and stat": lambda: walk(folder, look=True),
        "list_files": lambda: list_location(folder),
        "planning alone": lambda: files * bool(plan(access, folder)),
        "tasks that list and count": lambda: list_and_count(spark, access, folder),
        "tasks that list and write": lambda: list_and_write(spark, access, folder, target()),
        "source, counted": lambda: listing(spark, folder).count(),
        "source, written": lambda: datasets.write(listing(spark, folder), target(), access).rows,
        "binaryFile, listed only": lambda: files * bool(spark_files(spark, folder).columns),
    }
    results: dict[str, list[Timing]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, action in contenders.items():
            before, start = Cpu.now(), time.perf_counter()
            assert action() == files, name
            results[name].append(Timing(time.perf_counter() - start, Cpu.now().since(before)))
    show(files, results)


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of this process, of Java below it, and of Python below that."""

    here: float
    java: float
    workers: float

    @classmethod
    def now(cls) -> Cpu:
        seconds = {"here": 0.0, "java": 0.0, "workers": 0.0}
        waiting = [(os.getpid(), "here")]
        while waiting:
            process, kind = waiting.pop()
            with suppress(OSError):  # it has ended
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                seconds[kind] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                lists = [
                    path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")
                ]
                below = " ".join(lists).split()
                waiting += [(int(child), _BELOW[kind]) for child in below]
        return cls(**seconds)

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.here - before.here, self.java - before.java, self.workers - before.workers)


_BELOW = {"here": "java", "java": "workers", "workers": "workers"}


@dataclass(frozen=True, slots=True)
class Timing:
    wall_seconds: float
    cpu: Cpu


def show(files: int, results: dict[str, list[Timing]]) -> None:
    first = min(timing.wall_seconds for timing in results["scandir and stat"][1:])
    print(
        f"{files:,} files{'files/s':>22}{'seconds':>10}{'cold':>8}{'to scandir+stat':>17}", end=""
    )
    print(f"{'CPU: here':>12}{'Java':>7}{'workers':>9}")
    for name, (cold, *warm) in results.items():
        best = min(warm, key=lambda timing: timing.wall_seconds)
        seconds, cpu = best.wall_seconds, best.cpu
        print(
            f"{name:26}{files / seconds:>11,.0f}{seconds:>10.2f}{cold.wall_seconds:>8.2f}", end=""
        )
        print(f"{first / seconds:>15.2f} x{cpu.here:>12.2f}{cpu.java:>7.2f}{cpu.workers:>9.2f}")


def plan(access: ExecutorAccess, folder: str) -> list[tuple[Piece, ...]]:
    return cut_locations(access.stores, [folder], access.parts)


def list_and_count(spark: SparkSession, access: ExecutorAccess, folder: str) -> int:
    """No row leaves the tasks: what listing itself takes."""
    counted = map_items(spark, plan(access, folder), count_files, COUNT, access=access)
    return sum(row.rows for row in counted.collect())


def count_files(pieces: tuple[Piece, ...], access: ExecutorAccess) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in list_pieces(access.stores, pieces))
    yield pa.RecordBatch.from_pydict({"rows": [rows]}, schema=COUNT)


def list_and_write(spark: SparkSession, access: ExecutorAccess, folder: str, target: str) -> int:
    """Rows go from the listing to Parquet inside one task, and never through Java."""
    written = map_items(
        spark, plan(access, folder), write_files, PART_SCHEMA, access=access, target=target
    )
    return sum(row.rows for row in written.collect())


def write_files(
    pieces: tuple[Piece, ...], access: ExecutorAccess, target: str
) -> Iterator[pa.RecordBatch]:
    stores = access.stores
    return write_parts(stores, target, LISTED_SCHEMA, list_pieces(stores, pieces))


def listing(spark: SparkSession, folder: str) -> DataFrame:
    return spark.read.format("lakesweep.listing").load(folder)


def spark_files(spark: SparkSession, folder: str) -> DataFrame:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)


if __name__ == "__main__":
    main()
