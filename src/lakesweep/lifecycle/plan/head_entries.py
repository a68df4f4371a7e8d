"""Entries of branch HEADs whose objects expire, by rules with `expire_heads`.

If the repository has a server, such paths are first removed from their branches, and the
objects wait for the next run. The plan records them, so that it shows what will be removed
from which branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lakefs.addresses import may_be_deleted
from lakesweep.lifecycle.columns import HEAD_ENTRIES
from lakesweep.lifecycle.entries.reader import RangeSource
from lakesweep.lifecycle.judge.occurrences import addressed
from lakesweep.parallel import map_ordered
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset, write_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result

if TYPE_CHECKING:
    from lakesweep.lakefs.refs.commit_graph import Refs
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.policy.rules import LifecyclePolicy
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine

Batches = Iterable[pa.RecordBatch]

_READERS = 4
_RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)


class BranchPaths(msgspec.Struct, frozen=True):
    """How many paths would be removed from a branch."""

    name: str
    commit: str
    paths: int


class HeldByHeads(msgspec.Struct, frozen=True):
    """Expiring objects that HEADs hold, and the paths that have to be removed first."""

    files: int
    bytes: int
    paths: int
    branches: tuple[BranchPaths, ...]


@dataclass(frozen=True)
class HeadEntries:
    """The entries of HEADs (HEAD_ENTRIES) whose objects expire, and their totals."""

    entries: Dataset
    totals: HeldByHeads


@dataclass(frozen=True)
class HeadReadStep:
    """Reads ranges of HEADs into parts of HEAD_ENTRIES. `starts` are the prefixes to read."""

    source: RangeSource
    starts: tuple[str, ...]
    stores: Stores
    address: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HEAD_ENTRIES)
        rows = (row for batch in batches for row in batch.to_pylist())
        for found in map_ordered(self._read, rows, workers=_READERS):
            writer.add(found)
        yield task_result("entries", writer.finish())

    def _read(self, row: Mapping[str, Any]) -> pa.RecordBatch:
        found = self.source.range(row["range_id"], row["count"])
        chosen = may_be_deleted(found["address"], found["address_type"]).to_numpy(
            zero_copy_only=False
        )
        below = [pc.starts_with(found["path"], start) for start in self.starts]
        chosen = chosen & np.any([each.to_numpy(zero_copy_only=False) for each in below], axis=0)
        found = found.filter(pa.array(chosen))
        low, high, _ = addressed(self.source.namespace, found["address"])
        ranges = pa.repeat(pa.scalar(row["range_id"], pa.string()), found.num_rows)
        return pa.RecordBatch.from_arrays([low, high, found["path"], ranges], schema=HEAD_ENTRIES)


@dataclass(frozen=True)
class HeadChooseStep:
    """Writes the HEAD_ENTRIES that have a `verdict`, and counts them by range."""

    stores: Stores
    address: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, HEAD_ENTRIES)
        counts: dict[str, int] = {}
        for batch in batches:
            found = batch.filter(pc.is_valid(batch["verdict"])).select(HEAD_ENTRIES.names)
            writer.add(found.cast(HEAD_ENTRIES))
            for row in pc.value_counts(found["range_id"]).to_pylist():
                counts[row["values"]] = counts.get(row["values"], 0) + row["counts"]
        yield task_result("entries", writer.finish())
        yield task_result("ranges", [counts])


@dataclass(frozen=True)
class HeadCountStep:
    """Counts the files (REFERENCED) that are referenced, and their bytes."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        files = size = 0
        for batch in batches:
            found = batch.filter(batch["referenced"])
            files += found.num_rows
            size += pc.sum(found["size_bytes"], min_count=0).as_py()
        yield task_result("held", [(files, size)])


def choose_entries(
    stores: Stores, engine: SweepEngine, entries: Dataset, deletes: Dataset, address: str
) -> tuple[Dataset, dict[str, int]]:
    """The HEAD_ENTRIES whose objects expire (VERDICTS), and how many each range has."""
    answers = engine.pair(
        HeadChooseStep(stores, address), entries, deletes, ["verdict"], TASK_RESULTS
    )
    chosen = commit_dataset(stores, address, results_of(answers, "entries", Part), HEAD_ENTRIES)
    counts: dict[str, int] = {}
    for each in results_of(answers, "ranges", dict[str, int]):
        for range_id, count in each.items():
            counts[range_id] = counts.get(range_id, 0) + count
    return chosen, counts


@dataclass(frozen=True)
class BranchHeads:
    """The HEADs of a repository with these refs."""

    repository: Repository
    refs: Refs

    @property
    def _source(self) -> RangeSource:
        return RangeSource(self.repository.files, self.repository.namespace)

    def ranges(self, commit: str) -> Mapping[str, int]:
        """The ranges of a commit, and how many entries each has."""
        metarange = self.refs.commits[commit].metarange_id
        if not metarange:
            return {}
        found = self._source.metarange(metarange)
        return dict(zip(found["range_id"].to_pylist(), found["count"].to_pylist(), strict=True))

    def held(
        self,
        stores: Stores,
        engine: SweepEngine,
        policy: LifecyclePolicy,
        deletes: Dataset,
        address: str,
    ) -> HeadEntries:
        """What HEADs hold of expiring objects (VERDICTS)."""
        commits = {branch.commit_id for branch in self.refs.branches}
        found: dict[str, int] = {}
        for commit in sorted(commits):
            found.update(self.ranges(commit))
        rows = [{"range_id": id_, "count": count} for id_, count in sorted(found.items())]
        batch = pa.RecordBatch.from_pylist(rows, schema=_RANGES)
        ranges = write_dataset(stores, f"{address}/ranges", _RANGES, [batch])
        starts = tuple(rule.prefix.start for rule in policy.head_rules)
        step = HeadReadStep(self._source, starts, stores, f"{address}/all")
        answers = engine.gather(step, ranges, TASK_RESULTS)
        parts = results_of(answers, "entries", Part)
        entries = commit_dataset(stores, f"{address}/all", parts, HEAD_ENTRIES)
        chosen, counts = choose_entries(stores, engine, entries, deletes, f"{address}/entries")
        for name in ("ranges", "all"):
            remove_folder(stores, f"{address}/{name}")
        answers = engine.match(HeadCountStep(), deletes, chosen, TASK_RESULTS)
        told = list(results_of(answers, "held", tuple[int, int]))
        files, size = sum(each[0] for each in told), sum(each[1] for each in told)
        branches = self._branches(counts)
        paths = sum(each.paths for each in branches)
        return HeadEntries(chosen, HeldByHeads(files, size, paths, branches))

    def _branches(self, counts: Mapping[str, int]) -> tuple[BranchPaths, ...]:
        """How many paths would be removed from each branch."""
        commits = {branch.commit_id for branch in self.refs.branches} if counts else set()
        paths = {
            commit: sum(counts.get(range_id, 0) for range_id in self.ranges(commit))
            for commit in commits
        }
        return tuple(
            BranchPaths(branch.name, branch.commit_id, paths[branch.commit_id])
            for branch in self.refs.branches
            if paths.get(branch.commit_id)
        )
