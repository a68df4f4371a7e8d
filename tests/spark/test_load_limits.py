"""The limits of a bucket hold for all executors together, and what they used comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.counting_proxy import counting
from tests.servers import S3Server

_SIZES = pa.schema([("size", pa.int64())])
_RATE = 20
#: Slow enough that a busy machine is not the limit.
_SLOW = 9


@dataclass(frozen=True)
class ReadStep:
    """Reads objects."""

    stores: Stores

    def __call__(self, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
        store = self.stores.open("s3://load/")
        sizes = [len(store.read(key)) for key in keys]
        yield pa.RecordBatch.from_pydict({"size": sizes}, schema=_SIZES)


def test_executors_share_the_limits_of_a_bucket(
    spark: SparkSession, moto: S3Server, tmp_path: Path
) -> None:
    moto.make_bucket("load")
    for number in range(6):
        moto.boto3().put_object(Bucket="load", Key=f"k{number}", Body=b"12345")
    keys = [[f"k{number}"] * 7 for number in range(6)]
    with counting(moto, delay=0.02) as (server, counts):
        options = server.options(requests_per_second=_RATE, max_connections=2)
        stores = Stores({"s3://load": options})
        access = ExecutorAccess(stores)
        engine = SparkSweepEngine(spark, access)
        access.limit_tasks(engine.slots)
        stores.load.folder = f"{tmp_path}/load"
        found = engine.run(ReadStep(stores), keys, _SIZES)

    assert found["size"].to_pylist() == [5] * 42
    assert len(counts.times) == 42
    # One task at a time, since the driver has the other connection.
    assert (engine.slots, counts.most_in_flight) == (1, 1)
    assert counts.rate() <= 1.5 * _RATE / 2
    used = stores.load.used()
    assert (used.requests["read"], used.bytes_read) == (42, 210)


def test_tasks_at_once_divide_the_rate(spark: SparkSession, moto: S3Server) -> None:
    moto.make_bucket("load-rate")
    moto.boto3().put_object(Bucket="load-rate", Key="k", Body=b"12345")
    with counting(moto) as (server, counts):
        stores = Stores({"s3://load-rate": server.options(requests_per_second=_SLOW)})
        access = ExecutorAccess(stores)
        engine = SparkSweepEngine(spark, access)
        access.limit_tasks(engine.slots)
        engine.run(ReadRateStep(stores), [["k"] * 5] * 4, _SIZES)
    assert engine.slots == 2
    assert counts.rate(burst=2) <= 1.5 * _SLOW * 2 / 3


@dataclass(frozen=True)
class ReadRateStep(ReadStep):
    """The same in another bucket."""

    def __call__(self, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
        store = self.stores.open("s3://load-rate/")
        sizes = [len(store.read(key)) for key in keys]
        yield pa.RecordBatch.from_pydict({"size": sizes}, schema=_SIZES)
