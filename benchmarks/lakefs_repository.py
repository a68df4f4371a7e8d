"""A repository of many commits, as lakeFS writes them, and runs over it.

Each commit replaces a few objects in each of some ranges, so that these are written anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.ranges.reader import decode_metarange
from lakesweep.lakefs.ranges.sstable import SSTableType
from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryBranch, RepositoryCommit, make_refs
from lakesweep.lifecycle.judge.engine import LifecycleEngine
from lakesweep.lifecycle.judge.pipeline import JudgedAddresses, LifecycleSpec, judge_addresses
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import FolderFiles
from tests.lakefs_tables import Entry, RangeOf, write_table
from tests.lifecycle_runs import documents_of

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
KEYS_IN_A_RANGE = 1_000
RANGES_IN_A_COMMIT = 5
POLICY = b'{"r": {"prefix": "t", "days": 400, "enabled": true, "branch_days": {"main": 30}}}'


@dataclass(frozen=True)
class Shape:
    """How much is written: ranges at first, and objects that a commit replaces in a range."""

    commits: int
    ranges: int = 500
    replaced: int = 100

    @property
    def distinct(self) -> int:
        changed = (self.commits - 1) * RANGES_IN_A_COMMIT * self.replaced
        return self.ranges * KEYS_IN_A_RANGE + changed


@dataclass(frozen=True)
class Made:
    """A repository in a folder, with its refs."""

    folder: str
    refs: Refs
    entries: int
    name: str = "benchmark"
    namespace: StorageNamespace = StorageNamespace("s3://lake/benchmark")  # noqa: RUF009 (a value)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(self.folder)

    @property
    def editor(self) -> None:
        return None

    def read_refs(self) -> Refs:
        return self.refs

    def dump_age(self) -> None:
        return None

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
    written = write_table(values.items(), SSTableType.RANGES)
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
    commits: list[RepositoryCommit] = []
    for number in range(shape.commits):
        current |= changes.get(number, {})
        told = [(version.max_key, version.value()) for _, version in sorted(current.items())]
        written = write_table(told, SSTableType.METARANGES)
        (folder / "_lakefs" / written.id).write_bytes(written.data)
        created = datetime.fromtimestamp(_age(number, shape), UTC)
        parents = (commits[-1].id,) if commits else ()
        commits.append(RepositoryCommit(f"{number:064x}", parents, written.id, created))
    refs = make_refs(commits, [RepositoryBranch("main", commits[-1].id)], [])
    entries = sum(version.count for column in columns for _, version in column)
    return Made(str(folder), refs, entries)


def run(made: Made, engine: LifecycleEngine, folder: Path, number: int) -> JudgedAddresses:
    place = f"{folder}/work-{number}"
    staged = write_dataset(Stores(), f"{place}/staged", STAGED, made.staged())
    policy = parse_policy(POLICY, "policy.json")
    documents = documents_of(folder)
    spec = LifecycleSpec(made, policy, f"run-{number}", NOW, place, documents, f"{folder}/lc")
    return judge_addresses(spec, engine, made.refs, staged)


def range_files(made: Made) -> Iterator[tuple[str, bytes]]:
    """Every range of the repository once, with its id."""
    seen: set[str] = set()
    for commit in made.refs.commits.values():
        data = made.files.read(commit.metarange_id, meta=True)
        ids = decode_metarange("", data, commit.metarange_id)["range_id"].to_pylist()
        for id_ in ids:
            if id_ not in seen:
                seen.add(id_)
                yield id_, made.files.read(id_, meta=False)
