"""The Spark engine: executors run the kernels, Spark shuffles packed rows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lakesweep.hashing import hash128
from lakesweep.lifecycle.columns import FOLDED, HELD, METARANGES, PARSED, PLACED
from lakesweep.lifecycle.entries.cache import (
    find_ranges,
    keep_ranges,
    place_ranges,
    read_placed,
)
from lakesweep.lifecycle.judge.engine import JudgeInput, LocalLifecycleEngine
from lakesweep.lifecycle.judge.occurrences import again_occurrences, staged_occurrences
from lakesweep.lifecycle.judge.shuffle import PACKED, Keys, pack, unpack
from lakesweep.spark import datasets
from lakesweep.spark.kernels import map_batches, map_items
from lakesweep.storage.datasets.manifest import Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.sweep.columns import HASHES, hashes_of
from lakesweep.sweep.engine.protocol import (
    TASK_RESULTS,
    RowSplit,
    read_split,
    results_of,
    split_rows,
    task_result,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesweep.lifecycle.entries.cache import Segment
    from lakesweep.lifecycle.entries.reader import EdgeStep, ParseStep
    from lakesweep.lifecycle.judge.address_verdicts import AddressVerdicts, AddressVerdictStep
    from lakesweep.spark.executor_access import ExecutorAccess
    from lakesweep.storage.datasets.manifest import Dataset
    from lakesweep.storage.stores import Stores

#: The fewest rows that are worth a task, and the most that it may hold in memory.
_FEWEST_ROWS = 100_000
_MOST_ROWS = 500_000
#: More buckets than tasks, for an even distribution.
_BUCKETS_IN_A_PART = 8

_Item: TypeAlias = "tuple[Dataset, RowSplit]"
_Reader: TypeAlias = "Callable[[Stores, Dataset, RowSplit], Iterator[pa.RecordBatch]]"


def _run(
    batches: Iterator[pa.RecordBatch], step: Any, access: ExecutorAccess
) -> Iterator[pa.RecordBatch]:
    access.prepare()
    return step(batches)  # type: ignore[no-any-return]


def _run_packed(
    batches: Iterator[pa.RecordBatch], step: Any, access: ExecutorAccess
) -> Iterator[pa.RecordBatch]:
    return _run(unpack(batches), step, access)


def _read_packed(
    item: _Item, access: ExecutorAccess, read: _Reader, keys: Keys, buckets: int
) -> Iterator[pa.RecordBatch]:
    dataset, share = item
    return pack(read(access.stores, dataset, share), keys, buckets)


def _by_address(rows: pa.Table) -> npt.NDArray[np.uint64]:
    return hashes_of(rows)[0]


def _by_range(rows: pa.Table) -> npt.NDArray[np.uint64]:
    return hash128(rows["range_id"])[0]


@dataclass(frozen=True)
class _Occurrences:
    """Reads the occurrences of entries (FOLDED), staged changes (STAGED) and waiting addresses."""

    question: JudgeInput

    def __call__(
        self, stores: Stores, dataset: Dataset, share: RowSplit
    ) -> Iterator[pa.RecordBatch]:
        occur = self.question.occur
        if dataset.schema == FOLDED:
            return read_placed(stores, dataset, share, occur, self.question.placed)
        rows = read_split(stores, dataset, share)
        if dataset.schema == HASHES:
            return again_occurrences(rows)
        return staged_occurrences(rows, occur.namespace)


@dataclass(frozen=True)
class _Ranges:
    """Reads the keepers of ranges (EDGES), and where they are (PARSED)."""

    metaranges: Dataset

    def __call__(
        self, stores: Stores, dataset: Dataset, share: RowSplit
    ) -> Iterator[pa.RecordBatch]:
        if dataset.schema == PARSED:
            return iter(find_ranges(read_split(stores, dataset, share)).to_batches())
        rows = read_split(stores, dataset, share, ["metarange_id", "range_id"])
        keepers = pa.Table.from_batches(read_dataset(stores, self.metaranges), METARANGES)
        return iter(keep_ranges(rows, keepers).to_batches())


@dataclass(frozen=True)
class _PlaceStep:
    """Writes where ranges are and what keeps them; returns the parts."""

    stores: Stores
    address: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = DatasetWriter(self.stores, self.address, PLACED)
        for batch in place_ranges(pa.Table.from_batches(batches, HELD)):
            writer.add(batch)
        yield task_result("placed", writer.finish())


@dataclass(frozen=True)
class SparkLifecycleEngine:
    """Runs steps on the executors of a session.

    Up to `few_entries`, or `few_ranges`, run here: tasks would take longer to start.
    """

    spark: SparkSession
    access: ExecutorAccess
    name: str = "spark"
    few_entries: int = 20_000
    few_ranges: int = 4

    @property
    def stores(self) -> Stores:
        return self.access.stores

    @property
    def _here(self) -> LocalLifecycleEngine:
        return LocalLifecycleEngine(self.stores)

    def _are_few(self, segments: Sequence[Segment]) -> bool:
        return sum(segment.entries.rows for segment in segments) <= self.few_entries

    def read_edges(self, step: EdgeStep, metaranges: Dataset) -> pa.Table:
        if metaranges.rows <= self.few_ranges:
            return self._here.read_edges(step, metaranges)
        ids = self._read([metaranges], ["metarange_id"]).repartition(self.access.parts)
        return self._collect(self._map(ids, step, TASK_RESULTS))

    def parse(self, step: ParseStep, edges: Dataset, parsed: Sequence[Dataset]) -> pa.Table:
        if edges.rows <= self.few_ranges:
            return self._here.parse(step, edges, parsed)
        new = self._read([edges], ["range_id", "min_key", "count"])
        new = each_once(new)
        if parsed:
            new = not_parsed(new, self._read(parsed, ["range_id"]))
        together = beside_neighbours(new, self.access.parts)
        return self._collect(self._map(together, step, TASK_RESULTS))

    def place(self, segments: Sequence[Segment], metaranges: Dataset, address: str) -> Dataset:
        if self._are_few(segments):
            return self._here.place(segments, metaranges, address)
        read = [each.edges for each in segments] + [each.ranges for each in segments]
        step = _PlaceStep(self.stores, address)
        answers = self._shuffle(read, _Ranges(metaranges), _by_range, step)
        return commit_dataset(self.stores, address, results_of(answers, "placed", Part), PLACED)

    def weigh(self, question: JudgeInput, step: AddressVerdictStep) -> AddressVerdicts:
        if self._are_few(question.segments):
            return self._here.weigh(question, step)
        others = [each for each in (question.staged, question.again) if each is not None]
        read = [segment.entries for segment in question.segments] + others
        bare = replace(question, segments=())  # tasks know what they read
        answers = self._shuffle(read, _Occurrences(bare), _by_address, step)
        return step.commit(self.stores, answers)

    def _shuffle(
        self,
        found: Sequence[Dataset],
        read: _Reader,
        keys: Keys,
        step: AddressVerdictStep | _PlaceStep,
    ) -> pa.Table:
        """The results of a step, where all rows with the same key come to one call."""
        parts = self._tasks(sum(dataset.rows for dataset in found))
        packed = map_items(
            self.spark,
            [item for dataset in found for item in self._items(dataset)],
            _read_packed,
            PACKED,
            most_tasks=self.access.most_tasks,
            access=self.access,
            read=read,
            keys=keys,
            buckets=_BUCKETS_IN_A_PART * parts,
        )
        together = bring_together(packed, parts)
        most = self.access.most_tasks
        return self._collect(
            map_batches(
                together, _run_packed, TASK_RESULTS, most_tasks=most, step=step, access=self.access
            )
        )

    def _items(self, dataset: Dataset) -> Iterator[_Item]:
        bare = replace(dataset, parts=())  # each task has its own
        for share in split_rows(dataset, self._tasks(dataset.rows)):
            yield bare, share

    def _tasks(self, rows: int) -> int:
        """How many tasks are worthwhile."""
        few = min(self.access.parts, rows // _FEWEST_ROWS)
        return max(1, few, rows // _MOST_ROWS)

    def _map(
        self,
        frame: DataFrame,
        step: EdgeStep | ParseStep,
        schema: pa.Schema,
    ) -> DataFrame:
        most = self.access.most_tasks
        return map_batches(frame, _run, schema, most_tasks=most, step=step, access=self.access)

    def _read(self, found: Iterable[Dataset], columns: Sequence[str] | None = None) -> DataFrame:
        frames = [datasets.read(self.spark, each, self.access, columns) for each in found]
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _collect(self, frame: DataFrame) -> pa.Table:
        rows = self.access.collect(frame)
        return pa.Table.from_pylist([row.asDict() for row in rows], schema=TASK_RESULTS)


def each_once(edges: DataFrame) -> DataFrame:
    """The ranges of metaranges (EDGES), each once."""
    return edges.groupBy("range_id").agg(
        F.min("min_key").alias("min_key"), F.max("count").alias("count")
    )


def not_parsed(ranges: DataFrame, parsed: DataFrame) -> DataFrame:
    """The ranges that were not parsed yet (PARSED)."""
    return ranges.join(parsed.select("range_id"), "range_id", "left_anti")


def beside_neighbours(ranges: DataFrame, parts: int) -> DataFrame:
    """Ranges in a number of parts, next to those that begin with the same keys."""
    return ranges.repartitionByRange(parts, "min_key", "range_id").sortWithinPartitions(
        "min_key", "range_id"
    )


def bring_together(packed: DataFrame, parts: int) -> DataFrame:
    """Packed rows (PACKED) in a number of parts: all of a bucket in one."""
    return packed.repartition(parts, "bucket")
