"""The sweep's steps on Spark: executors run the kernels, Spark joins and groups the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lakesweep.spark import datasets
from lakesweep.spark.errors import translating
from lakesweep.spark.kernels import map_batches, map_items
from lakesweep.storage.marks import POINTERS
from lakesweep.sweep.columns import LISTING, LIVE
from lakesweep.sweep.mark_engine import MERGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakesweep.spark.access import Access
    from lakesweep.storage.datasets import Dataset
    from lakesweep.sweep.mark_engine import Step

_FILE = ["h1", "h2", "location"]
_FEW = 1_000_000


def _run(batches: Iterator[pa.RecordBatch], step: Step, access: Access) -> Iterator[pa.RecordBatch]:
    _ = access.stores  # brings the variables that stores are reached with
    return step(batches)


@dataclass(frozen=True)
class SparkEngine:
    """Runs steps on the executors of a session."""

    spark: SparkSession
    access: Access
    name: str = "spark"

    @property
    def parts(self) -> int:
        return self.access.parts

    def gather(self, step: Step, rows: Dataset, schema: pa.Schema) -> pa.Table:
        frame = self._read(rows)
        if rows.rows <= _FEW:
            # Each row may stand for much work, and all of them lie in one file.
            frame = frame.repartition(max(1, min(self.parts, rows.rows)))
        return self._collect(self._map(frame, step, schema), schema)

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        frames = [self._read(dataset, POINTERS.names) for dataset in children]
        together = frames[0]
        for frame in frames[1:]:
            together = together.unionByName(frame)
        merged = (
            together.where(F.col("kind") == kind)
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
        return self._collect(map_items(self.spark, items, kernel, schema), schema)

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        files = self._read(listing)
        known = self._read(live, ["h1", "h2"]).distinct().withColumn("found", F.lit(True))
        joined = files.join(known, ["h1", "h2"], "left").select(
            *LISTING.names, F.coalesce("found", F.lit(False)).alias("referenced")
        )
        return self._collect(self._map(joined, step, schema), schema)

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        stored = self._read(listing, ["h1", "h2"])
        missing = self._read(live).join(stored, ["h1", "h2"], "left_anti")
        together = missing.select(*LIVE.names).repartition("h1", "h2")
        return self._collect(self._map(together, step, schema), schema)

    def _map(self, frame: DataFrame, step: Step, schema: pa.Schema) -> DataFrame:
        return map_batches(frame, _run, schema, step=step, access=self.access)

    def _read(self, dataset: Dataset, columns: Sequence[str] | None = None) -> DataFrame:
        return datasets.read(self.spark, dataset, self.access, columns)

    def _collect(self, frame: DataFrame, schema: pa.Schema) -> pa.Table:
        with translating():
            rows = frame.collect()
        return pa.Table.from_pylist([row.asDict() for row in rows], schema=schema)
