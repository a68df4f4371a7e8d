"""Run the steps of a sweep on Spark: executors run the kernels, Spark joins and groups the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lakesweep.marks.columns import LIVE, POINTERS
from lakesweep.marks.pointers import MERGED
from lakesweep.spark import datasets
from lakesweep.spark.kernels import map_batches, map_items
from lakesweep.spark.settings import session_cores
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.columns import HASHES, LISTING
from lakesweep.sweep.engine.local_engine import LocalMarkEngine, load_hashes, mark_referenced
from lakesweep.sweep.engine.protocol import RowSplit, read_split, split_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakesweep.hashing import HashSet
    from lakesweep.spark.executor_access import ExecutorAccess
    from lakesweep.storage.datasets.manifest import Dataset
    from lakesweep.sweep.engine.protocol import Step

_FILE = ["h1", "h2", "location"]
#: At least this many rows per task, if there are more than the best number of tasks.
_ROWS_IN_A_SHARE = 1_000_000
#: Fewer rows are judged faster than a task can start.
_FEWEST_ROWS = 60_000


def _run(
    batches: Iterator[pa.RecordBatch], step: Step, access: ExecutorAccess
) -> Iterator[pa.RecordBatch]:
    access.prepare()
    return step(batches)


def _run_share(
    share: RowSplit, step: Step, access: ExecutorAccess, rows: Dataset
) -> Iterator[pa.RecordBatch]:
    return step(read_split(access.stores, rows, share))


def _match_share(
    share: RowSplit, step: Step, access: ExecutorAccess, listing: Dataset, live: Dataset
) -> Iterator[pa.RecordBatch]:
    known = _held(access, live)
    files = read_split(access.stores, listing, share, LISTING.names)
    return step(mark_referenced(files, known))


#: The live files of the last task in this process; usually the next task needs the same.
_last: list[tuple[str, HashSet]] = []


def _held(access: ExecutorAccess, live: Dataset) -> HashSet:
    if not _last or _last[0][0] != live.sha256:
        _last[:] = [(live.sha256, load_hashes(access.stores, live))]
    return _last[0][1]


@dataclass(frozen=True)
class SparkSweepEngine:
    """Runs steps on the executors of a session.

    Tasks read their rows themselves, which is cheaper than passing them through Java. Up to
    `few_rows` are processed here: starting tasks would take longer. Up to `few_pointers` are merged
    here, and up to `few_live` files are held by each process that matches against them.
    """

    spark: SparkSession
    access: ExecutorAccess
    name: str = "spark"
    few_rows: int = 4
    few_pointers: int = 50_000
    few_live: int = 2_000_000

    @property
    def parts(self) -> int:
        return self.access.parts

    @property
    def slots(self) -> int:
        cores, most = session_cores(self.spark), self.access.most_tasks
        return cores if most is None else min(cores, most)

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        if rows.rows <= self.few_rows:
            return pa.Table.from_batches(step(read_dataset(self.access.stores, rows)), schema)
        shares = self._shares(rows) if most_calls is None else split_rows(rows, most_calls)
        frame = map_items(
            self.spark,
            shares,
            _run_share,
            schema,
            most_tasks=self.access.most_tasks,
            step=step,
            access=self.access,
            rows=rows,
        )
        return self._collect(frame, schema)

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        if sum(dataset.rows for dataset in children) <= self.few_pointers:
            return LocalMarkEngine(self.access.stores).distinct(children, kind, address)
        merged = (
            self._union(children, POINTERS.names)
            .where(F.col("kind") == kind)
            .groupBy(*_FILE)
            .agg(*(getattr(F, how)(name).alias(name) for name, how in MERGED.items()))
            .select(*POINTERS.names)
        )
        return datasets.write(merged, address, self.access, POINTERS)

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        most = self.access.most_tasks
        return self._collect(map_items(self.spark, items, kernel, schema, most_tasks=most), schema)

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        if live.rows > self.few_live:
            return self._join(step, listing, live, schema)
        frame = map_items(
            self.spark,
            self._shares(listing, _FEWEST_ROWS),
            _match_share,
            schema,
            most_tasks=self.access.most_tasks,
            step=step,
            access=self.access,
            listing=listing,
            live=live,
        )
        return self._collect(frame, schema)

    def _join(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        files = self._read(listing)
        # Distinct first: a live file that several sources name must not repeat a listed one.
        known = self._read(live, ["h1", "h2"]).distinct().withColumn("found", F.lit(True))
        joined = files.join(known, ["h1", "h2"], "left").select(
            # Never null: the judge refuses rows of which it is unknown whether they are referenced.
            *LISTING.names,
            F.coalesce("found", F.lit(False)).alias("referenced"),
        )
        return self._collect(self._map(joined, step, schema), schema)

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        stored = self._read(listing, ["h1", "h2"])
        missing = self._read(live).join(stored, ["h1", "h2"], "left_anti")
        # All rows of one file must reach the same call of the step.
        together = missing.select(*LIVE.names).repartition("h1", "h2")
        return self._collect(self._map(together, step, schema), schema)

    def group(
        self, step: Step, rows: Sequence[Dataset], schema: pa.Schema, *, least_calls: int = 1
    ) -> pa.Table:
        # With a number of partitions, Spark makes as many: it neither merges nor skips any.
        calls = max(self.parts, least_calls)
        together = self._union(rows).repartition(calls, *HASHES.names)
        return self._collect(self._map(together, step, schema), schema)

    def pair(
        self,
        step: Step,
        listing: Dataset,
        said: Dataset,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        told = self._read(said, [*HASHES.names, *columns])
        paired = self._read(listing).join(told, HASHES.names, "left")
        chosen = paired.select(*listing.schema.names, *columns)
        return self._collect(self._map(chosen, step, schema), schema)

    def _shares(self, rows: Dataset, fewest: int = 1) -> list[RowSplit]:
        few = min(self.parts, max(1, rows.rows // fewest))
        return split_rows(rows, max(few, rows.rows // _ROWS_IN_A_SHARE))

    def _map(self, frame: DataFrame, step: Step, schema: pa.Schema) -> DataFrame:
        most = self.access.most_tasks
        return map_batches(frame, _run, schema, most_tasks=most, step=step, access=self.access)

    def _read(self, dataset: Dataset, columns: Sequence[str] | None = None) -> DataFrame:
        return datasets.read(self.spark, dataset, self.access, columns)

    def _union(
        self, datasets: Sequence[Dataset], columns: Sequence[str] | None = None
    ) -> DataFrame:
        frames = [self._read(dataset, columns) for dataset in datasets]
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionByName(frame)
        return together

    def _collect(self, frame: DataFrame, schema: pa.Schema) -> pa.Table:
        rows = self.access.collect(frame)
        return pa.Table.from_pylist([row.asDict() for row in rows], schema=schema)
