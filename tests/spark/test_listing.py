from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakesweep.errors import LakesweepError, MissingError, UsageError
from lakesweep.spark.data_source import ListingSource, bind_access
from lakesweep.spark.error_translation import translating
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.register import register
from lakesweep.storage.stores import Stores
from tests.servers import S3Server

FORMAT = "lakesweep.listing"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listing") / "lake"
    for number in range(60):
        file = folder / f"t{number % 4}" / f"p={number % 10}" / f"{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * number)
    return folder


def paths(frame: DataFrame) -> list[str]:
    return sorted(row.path for row in frame.select("path").collect())


def files(*folders: Path) -> list[str]:
    return sorted(str(p) for folder in folders for p in folder.rglob("*") if p.is_file())


def test_a_folder_is_listed_with_what_its_files_are(
    spark: SparkSession, access: ExecutorAccess, tree: Path
) -> None:
    rows = spark.read.format(FORMAT).load(str(tree)).collect()
    assert {(row.path, row.size_bytes, row.modified.timestamp()) for row in rows} == {
        (str(path), path.stat().st_size, path.stat().st_mtime_ns // 1000 / 1e6)
        for path in tree.rglob("*")
        if path.is_file()
    }


def test_a_listing_is_spread_over_tasks(
    spark: SparkSession, access: ExecutorAccess, tree: Path
) -> None:
    frame = spark.read.format(FORMAT).option("parts", "4").load(str(tree))
    assert frame.rdd.getNumPartitions() == 4


@pytest.mark.parametrize("spell", [json.dumps, ";".join])
def test_several_locations_come_in_one_option(
    spark: SparkSession, access: ExecutorAccess, tree: Path, spell: object
) -> None:
    assert callable(spell)
    locations = spell([str(tree / "t1"), str(tree / "t2")])
    frame = spark.read.format(FORMAT).option("locations", locations).load()
    assert paths(frame) == files(tree / "t1", tree / "t2")


def test_several_locations_may_be_loaded(
    spark: SparkSession, access: ExecutorAccess, tree: Path
) -> None:
    frame = spark.read.format(FORMAT).load([str(tree / "t1"), str(tree / "t2")])
    assert paths(frame) == files(tree / "t1", tree / "t2")


def test_a_listing_can_be_asked_in_sql(
    spark: SparkSession, access: ExecutorAccess, tree: Path
) -> None:
    spark.read.format(FORMAT).load(str(tree)).createOrReplaceTempView("stored")
    row = spark.sql("select count(*) as files, sum(size_bytes) as bytes from stored").first()
    assert row is not None
    assert (row.files, row.bytes) == (60, sum(range(60)))


def test_a_folder_that_is_not_there_is_missing(
    spark: SparkSession, access: ExecutorAccess, tree: Path
) -> None:
    with pytest.raises(MissingError, match="nowhere"), translating():
        spark.read.format(FORMAT).load(str(tree / "nowhere")).collect()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs an address"),
        ({"path": "nonsense"}, "not an address"),
        ({"path": "/tmp", "parts": "many"}, "whole number"),
        ({"locations": "[1"}, "not a JSON list"),
    ],
)
def test_wrong_options_are_told(
    spark: SparkSession, access: ExecutorAccess, options: dict[str, str], told: str
) -> None:
    with pytest.raises(UsageError, match=told), translating():
        spark.read.format(FORMAT).options(**options).load().collect()


def test_a_bucket_is_listed_with_credentials_that_nobody_sees(
    spark: SparkSession, access: ExecutorAccess, moto: S3Server, events: Path
) -> None:
    bucket = moto.make_bucket("spark-listing")
    for key in ("a//b", "t/1 é", "t/2/3", "trail/"):
        moto.boto3().put_object(Bucket=bucket, Key=key, Body=b"x")
    reaching = ExecutorAccess(Stores({f"s3://{bucket}": moto.options()}))
    spark.dataSource.register(bind_access(ListingSource, reaching))
    frame = spark.read.format(FORMAT).load(f"s3://{bucket}")
    assert paths(frame) == [f"s3://{bucket}/{key}" for key in ("a//b", "t/1 é", "t/2/3", "trail/")]
    (log,) = events.iterdir()
    written = log.read_text()
    assert "BatchScan lakesweep.listing" in written
    assert moto.secret_access_key not in written
    register(spark)


def test_a_wrong_key_is_told_as_such(spark: SparkSession, access: ExecutorAccess) -> None:
    with pytest.raises(LakesweepError, match="does not name a bucket"), translating():
        spark.read.format(FORMAT).load("s3:///x").collect()
