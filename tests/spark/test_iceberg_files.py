from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from lakesweep.errors import UnreadableError
from lakesweep.spark.error_translation import translating
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.register import register, register_sources
from lakesweep.storage.address import identity
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores
from tests.lake import BUCKET, EngineLake

FORMAT = "lakesweep.iceberg-files"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    return EngineLake.unpack(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def lake(spark: SparkSession, engine: EngineLake) -> Iterator[EngineLake]:
    """The engine's lake, whose addresses lead the sources to the unpacked files."""
    store = LocalStore(str(engine.bucket), f"s3://{BUCKET}/")
    register_sources(spark, ExecutorAccess(Stores(replace={f"s3://{BUCKET}": store})))
    yield engine
    register(spark)


def reached(spark: SparkSession, ref: str) -> set[tuple[str, str]]:
    rows = spark.read.format(FORMAT).load(ref).distinct().collect()
    return {(row.kind, identity(row.path)) for row in rows}


@pytest.mark.parametrize(
    "name", ["shop.orders", "shop.branched", "shop.plain_v1", "shop.big_orders"]
)
def test_what_a_table_reaches_is_what_the_engine_says(
    spark: SparkSession, lake: EngineLake, name: str
) -> None:
    found = lake.table(f"lake.{name}")
    assert reached(spark, found.metadata_path) == found.referenced()


def test_manifests_are_read_by_several_tasks(spark: SparkSession, lake: EngineLake) -> None:
    frame = spark.read.format(FORMAT).load(lake.table("lake.shop.longtail").metadata_path)
    assert frame.rdd.getNumPartitions() > 2


def test_a_file_that_cannot_be_read_ends_the_job(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path
) -> None:
    metadata = tmp_path / "v1.metadata.json"
    metadata.write_text(
        '{"format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",'
        f'"location": "{tmp_path}", "snapshots": [{{"snapshot-id": 1, "timestamp-ms": 1,'
        f'"manifest-list": "{tmp_path}/gone.avro"}}], "current-snapshot-id": 1,'
        '"schemas": [], "partition-specs": [], "sort-orders": [], "properties": {}}'
    )
    with pytest.raises(UnreadableError, match=r"gone\.avro is missing"), translating():
        spark.read.format(FORMAT).load(str(metadata)).collect()


def test_a_table_may_be_named_by_its_catalog(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog = load_catalog("here", **properties, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    register(spark, catalogs={"here": properties})
    assert reached(spark, "here.shop.orders") == {("metadata", identity(made.metadata_location))}
