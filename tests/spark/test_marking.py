"""Marking on Spark gives what marking in one process gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalMarkEngine
from lakesweep.sweep.engine.protocol import MarkEngine
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from lakesweep.sweep.mark import mark_cache
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.root import RootSource
from tests.lake import EngineLake


class Lake:
    """The engine's lake in a folder, with one manifest damaged, as both engines mark it."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        lake = EngineLake.unpack(folder)
        self._folder = folder
        self.stores = Stores(replace={"s3://lake": LocalStore(str(lake.bucket), "s3://lake/")})
        unlisted = [t.metadata_path for t in lake.tables() if not t.name.startswith("lake.")]
        self._sources: list[RootSource] = [
            CatalogRoots("lake", {"type": "sql", "uri": lake.catalog_uri}),
            MetadataRoots(self.stores, unlisted),
        ]
        damaged = min(lake.bucket.rglob("warehouse/shop/orders/metadata/*-m0.avro"))
        damaged.write_bytes(damaged.read_bytes()[:500])
        self.engines: dict[str, MarkEngine] = {
            "local": LocalMarkEngine(self.stores),
            # Everything on executors, however little it is.
            "spark": SparkSweepEngine(
                spark, ExecutorAccess(self.stores, parts=4), few_rows=0, few_pointers=0, few_live=0
            ),
        }

    def mark(self, engine: str, name: str, cache: Marks | None = None) -> Marks:
        address = f"{self._folder}/{engine}-{name}"
        spec = MarkSpec(self.engines[engine], self.stores, address, cache)
        return mark(spec, self._sources)

    def rows(self, marks: Marks, name: str) -> Counter[tuple[object, ...]]:
        batches = read_dataset(self.stores, marks.datasets[name])
        return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    return Lake(tmp_path_factory.mktemp("lake"), spark)


def test_both_engines_write_the_same_marks_with_and_without_a_cache(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_cache, "_LITTLE_BYTES", 0)
    local = lake.mark("local", "first")
    for name, cache in (("first", None), ("again", local)):
        spark = lake.mark("spark", name, cache)
        assert spark.roots == local.roots
        assert bool(spark.figures.reused) is (cache is not None)
        for dataset in local.datasets:
            assert lake.rows(spark, dataset) == lake.rows(local, dataset), dataset
