from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakesweep.errors import (
    DamagedError,
    ExistsError,
    MissingError,
    SparkJobError,
    SparkLostError,
    UsageError,
)
from lakesweep.spark import datasets
from lakesweep.spark.error_translation import translating
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.kernels import map_batches
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.stores import Stores
from tests.servers import S3Server

STORES = Stores()


def numbers(spark: SparkSession, rows: int = 1000) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id", "concat('s3://lake/', id) as path", "timestamp_micros(id * 1000003) as at"
    )


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.fixture(scope="module")
def dataset(
    spark: SparkSession, access: ExecutorAccess, tmp_path_factory: pytest.TempPathFactory
) -> Dataset:
    folder = tmp_path_factory.mktemp("datasets") / "numbers"
    return datasets.write(numbers(spark), str(folder), access)


@pytest.fixture
def copy(dataset: Dataset, tmp_path: Path) -> Dataset:
    """The same dataset at an address of its own, to be harmed."""
    shutil.copytree(dataset.address, tmp_path / "copy")
    return load_dataset(STORES, f"{tmp_path}/copy")


def test_what_was_written_is_read_without_spark(dataset: Dataset) -> None:
    rows = [row for batch in read_dataset(STORES, dataset) for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["id"])
    assert [row["path"] for row in rows] == [f"s3://lake/{number}" for number in range(1000)]
    assert [round(row["at"].timestamp() * 1e6) for row in rows[:2]] == [0, 1000003]


def test_what_was_written_is_committed(dataset: Dataset) -> None:
    assert load_dataset(STORES, dataset.address) == dataset
    assert dataset.rows == 1000


def test_spark_reads_a_local_folder_itself(
    spark: SparkSession, access: ExecutorAccess, dataset: Dataset
) -> None:
    frame = datasets.read(spark, dataset, access, ["id", "at"])
    assert frame.columns == ["id", "at"]
    found = frame.selectExpr("id", "unix_micros(at) as micros").collect()
    assert sorted(tuple(row) for row in found) == [(n, n * 1000003) for n in range(1000)]


@pytest.mark.parametrize("name", ["_hidden/.x", "odd {a,b} *?[x] é%41"])
def test_any_folder_can_be_read(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path, name: str
) -> None:
    written = datasets.write(numbers(spark, 5), f"{tmp_path}/{name}", access)
    assert ids(datasets.read(spark, written, access)) == list(range(5))


def test_a_dataset_in_a_bucket_is_read_by_our_own_tasks(
    spark: SparkSession, moto: S3Server
) -> None:
    bucket = moto.make_bucket("spark-datasets")
    reaching = ExecutorAccess(Stores({f"s3://{bucket}": moto.options()}))
    written = datasets.write(numbers(spark, 100), f"s3://{bucket}/numbers", reaching)
    assert ids(datasets.read(spark, written, reaching, ["id"])) == list(range(100))


def test_a_dataset_is_a_source_for_everybody(
    spark: SparkSession, access: ExecutorAccess, dataset: Dataset
) -> None:
    frame = spark.read.format("lakesweep.dataset").load(dataset.address)
    assert frame.columns == ["id", "path", "at"]
    assert ids(frame) == list(range(1000))


def test_a_dataset_without_rows_is_read_as_such(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path
) -> None:
    empty = datasets.write(numbers(spark).where("id < 0"), f"{tmp_path}/empty", access)
    frame = datasets.read(spark, empty, access)
    assert (empty.parts, frame.columns, frame.count()) == ((), ["id", "path", "at"], 0)


def test_a_folder_without_a_dataset_is_missing(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path
) -> None:
    with pytest.raises(MissingError, match="no committed dataset"), translating():
        spark.read.format("lakesweep.dataset").load(str(tmp_path))


def test_a_column_that_is_not_there_is_told(
    spark: SparkSession, access: ExecutorAccess, dataset: Dataset
) -> None:
    source = spark.read.format("lakesweep.dataset").option("columns", "id;size")
    with pytest.raises(UsageError, match="no column size"), translating():
        source.load(dataset.address)


def harm(dataset: Dataset, how: str) -> None:
    part = Path(dataset.address, dataset.parts[0].name)
    data = bytearray(part.read_bytes())
    match how:
        case "removed":
            part.unlink()
        case "cut":
            part.write_bytes(data[:-1])
        case "changed":
            column = pq.ParquetFile(part).metadata.row_group(0).column(0)
            data[column.data_page_offset + 100] ^= 1
            part.write_bytes(data)


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_parts_are_looked_at_before_spark_reads_them(
    spark: SparkSession, access: ExecutorAccess, copy: Dataset, how: str
) -> None:
    harm(copy, how)
    with pytest.raises(DamagedError, match="this part of the dataset"):
        datasets.read(spark, copy, access)


def test_a_changed_page_stops_spark_itself(
    spark: SparkSession, access: ExecutorAccess, copy: Dataset
) -> None:
    harm(copy, "changed")
    with pytest.raises(SparkJobError, match=r"reading file .*/part-"), translating():
        datasets.read(spark, copy, access).collect()


def test_hashes_are_compared_in_a_folder_that_others_can_write_to(
    spark: SparkSession, access: ExecutorAccess, copy: Dataset
) -> None:
    """The checksum of a page can be forged together with the page."""
    Path(copy.address).chmod(0o777)
    harm(copy, "changed")
    with pytest.raises(DamagedError, match="wrong SHA-256"), translating():
        datasets.read(spark, copy, access).collect()


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_our_own_tasks_compare_every_part(
    spark: SparkSession, access: ExecutorAccess, copy: Dataset, how: str
) -> None:
    harm(copy, how)
    with pytest.raises(DamagedError, match="this part of the dataset"), translating():
        spark.read.format("lakesweep.dataset").load(copy.address).collect()


def die_once(batches: Iterator[pa.RecordBatch], flag: str) -> Iterator[pa.RecordBatch]:
    """Pass rows on, but kill the first worker that comes by after its first batch."""
    for batch in batches:
        yield batch
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_while_it_writes_does_no_harm(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path
) -> None:
    rows = spark.range(0, 100_000, 1, 4)
    dying = map_batches(rows, die_once, pa.schema([("id", pa.int64())]), flag=f"{tmp_path}/flag")
    written = datasets.write(dying, f"{tmp_path}/numbers", access)
    assert Path(tmp_path, "flag").exists()
    assert written.rows == 100_000
    assert ids(datasets.read(spark, written, access)) == list(range(100_000))


def die_always(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    os.kill(os.getpid(), signal.SIGKILL)


def test_when_every_worker_dies_nothing_is_committed(
    spark: SparkSession, access: ExecutorAccess, tmp_path: Path
) -> None:
    dying = map_batches(spark.range(10), die_always, pa.schema([("id", pa.int64())]))
    with pytest.raises(SparkLostError, match="worker exited unexpectedly"):
        datasets.write(dying, f"{tmp_path}/numbers", access)
    with pytest.raises(MissingError):
        load_dataset(STORES, f"{tmp_path}/numbers")


def test_a_dataset_that_is_there_is_not_replaced(
    spark: SparkSession, access: ExecutorAccess, dataset: Dataset
) -> None:
    with pytest.raises(ExistsError, match="another dataset has been committed"):
        datasets.write(numbers(spark, 5), dataset.address, access)
    assert load_dataset(STORES, dataset.address) == dataset
