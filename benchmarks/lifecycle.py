"""A lifecycle run on Spark, from ranges to verdicts: the first over a repository, and the second.

    python -m benchmarks.lifecycle                      # 1,000 commits, 1,000,000 distinct entries
    python -m benchmarks.lifecycle --commits 100
    python -m benchmarks.lifecycle --engine local       # in one process

Each commit replaces a few objects in each of some ranges, so that these are written anew, as lakeFS
does it. The first run reads all ranges and folds them, the second finds them in the cache. What is
told as the peer is reading and decoding alone, one range after the other, in this process. Memory
is that of the driver's Python, at its peak, above what it had before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from lakesweep.config import SparkSection
from lakesweep.lakefs.addresses import Namespace
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.properties import TableType
from lakesweep.lakefs.ranges import decode_range
from lakesweep.lakefs.refs import Branch, Commit, Refs, make_refs
from lakesweep.lifecycle.engine import LifecycleEngine, LocalEngine
from lakesweep.lifecycle.job import find_addresses
from lakesweep.lifecycle.policy_file import parse_policy
from lakesweep.lifecycle.spark_engine import SparkLifecycle
from lakesweep.lifecycle.spec import Found, Spec
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session
from lakesweep.storage.datasets import write_dataset
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import FolderFiles
from tests.lakefs_tables import Entry, RangeOf, write_table

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
KEYS_IN_A_RANGE = 1_000
RANGES_IN_A_COMMIT = 5
POLICY = b'{"r": {"prefix": "t", "days": 400, "enabled": true, "branch_days": {"main": 30}}}'


@dataclass(frozen=True)
class Shape:
    """How much is written: ranges at first, and objects that a commit replaces in a range."""

    commits: int
    ranges: int
    replaced: int


@dataclass(frozen=True)
class Made:
    """A repository in a folder, with its refs."""

    folder: str
    refs: Refs
    entries: int
    name: str = "benchmark"
    namespace: Namespace = Namespace("s3://lake/benchmark")  # noqa: RUF009 (a value)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(self.folder)

    def read_refs(self) -> Refs:
        return self.refs

    def staged(self) -> Iterator[pa.RecordBatch]:
        return iter(())


def _age(commit: int, shape: Shape) -> int:
    """When a commit was made, in seconds: they are spread over a year."""
    day = NOW - timedelta(days=365 * (shape.commits - commit) / shape.commits)
    return int(day.timestamp())


def write_column(place: int, shape: Shape, folder: str) -> list[tuple[int, RangeOf]]:
    """All versions of one range: at first, and by each commit that changes it."""
    values = {
        b"t/%06d/part-%06d" % (place, key): _value(place, key, 0, shape)
        for key in range(KEYS_IN_A_RANGE)
    }
    found = [(0, _store(values, folder))]
    every = shape.ranges // RANGES_IN_A_COMMIT
    for commit in range(1 + place % every, shape.commits, every):
        for step in range(shape.replaced):
            key = (commit * 31 + step * 17) % KEYS_IN_A_RANGE
            values[b"t/%06d/part-%06d" % (place, key)] = _value(place, key, commit, shape)
        found.append((commit, _store(values, folder)))
    return found


def _value(place: int, key: int, commit: int, shape: Shape) -> bytes:
    address = f"data/slice/{place:06}-{key:06}-{commit:06}"
    return Entry(address, _age(commit, shape), size_bytes=1000 + key, checksum=address).value()


def _store(values: dict[bytes, bytes], folder: str) -> RangeOf:
    written = write_table(values.items(), TableType.RANGES)
    Path(folder, "_lakefs", written.id).write_bytes(written.data)
    keys = list(values)
    return RangeOf(written.id, keys[0], keys[-1], len(written.data), len(keys))


def make(shape: Shape, folder: Path) -> Made:
    """Write a repository of one branch."""
    (folder / "_lakefs").mkdir(parents=True)
    with ProcessPoolExecutor() as pool:
        jobs = [
            pool.submit(write_column, place, shape, str(folder)) for place in range(shape.ranges)
        ]
        columns = [job.result() for job in jobs]
    changes: dict[int, dict[int, RangeOf]] = {}
    for place, versions in enumerate(columns):
        for commit, version in versions:
            changes.setdefault(commit, {})[place] = version
    current: dict[int, RangeOf] = {}
    commits: list[Commit] = []
    for number in range(shape.commits):
        current |= changes.get(number, {})
        told = [(version.max_key, version.value()) for _, version in sorted(current.items())]
        written = write_table(told, TableType.METARANGES)
        (folder / "_lakefs" / written.id).write_bytes(written.data)
        created = datetime.fromtimestamp(_age(number, shape), UTC)
        parents = (commits[-1].id,) if commits else ()
        commits.append(Commit(f"{number:064x}", parents, written.id, created))
    refs = make_refs(commits, [Branch("main", commits[-1].id)], [])
    entries = sum(version.count for column in columns for _, version in column)
    return Made(str(folder), refs, entries)


def run(made: Made, engine: LifecycleEngine, folder: Path, number: int) -> Found:
    place = f"{folder}/work-{number}"
    staged = write_dataset(Stores(), f"{place}/staged", STAGED, made.staged())
    policy = parse_policy(POLICY, "policy.json")
    spec = Spec(made, policy, f"run-{number}", NOW, place, f"{folder}/lc")
    return find_addresses(spec, engine, made.refs, staged)


def decode_all(made: Made) -> int:
    """Read and decode every range here; gives the entries."""
    count = 0
    seen = set()
    for commit in made.refs.commits.values():
        from lakesweep.lakefs.ranges import decode_metarange

        data = made.files.read(commit.metarange_id, meta=True)
        for id_ in decode_metarange("", data, commit.metarange_id)["range_id"].to_pylist():
            if id_ not in seen:
                seen.add(id_)
                count += decode_range("", made.files.read(id_, meta=False), id_).num_rows
    return count


def peak_mb() -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1]) / 1024


@contextmanager
def watched(name: str, entries: int) -> Iterator[Callable[[], float]]:
    Path("/proc/self/clear_refs").write_text("5")
    before, start = peak_mb(), time.perf_counter()
    yield lambda: time.perf_counter() - start
    took = time.perf_counter() - start
    grown = peak_mb() - before
    rate = entries / took / 1e6
    print(f"{name:28} {took:7.1f} s {rate:7.2f} M entries/s   driver +{grown:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time lifecycle runs over a made repository.")
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--ranges", type=int, default=500)
    parser.add_argument("--replaced", type=int, default=100)
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    shape = Shape(arguments.commits, arguments.ranges, arguments.replaced)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = make(shape, folder / "repo")
        distinct = shape.ranges * KEYS_IN_A_RANGE
        distinct += (shape.commits - 1) * RANGES_IN_A_COMMIT * shape.replaced
        print(f"{shape.commits} commits, {made.entries:,} entries in ranges, {distinct:,} distinct")
        with watched("decoding alone, one core", made.entries):
            decode_all(made)
        if arguments.engine == "local":
            contest(made, LocalEngine(Stores()), folder, arguments.rounds)
            return
        with open_session(SparkSection()) as spark:
            engine = SparkLifecycle(spark, register(spark))
            spark.range(10).count()
            contest(made, engine, folder, arguments.rounds)


def contest(made: Made, engine: LifecycleEngine, folder: Path, rounds: int) -> None:
    with watched("first run", made.entries) as clock:
        found = run(made, engine, folder, 0)
        cold = clock()
    print(dict(found.figures))
    warm = []
    for number in range(1, rounds + 1):
        with watched("next run", made.entries) as clock:
            run(made, engine, folder, number)
            warm.append(clock())
    print(f"the first run takes {cold / min(warm):.1f} times as long as the next")


if __name__ == "__main__":
    main()
