from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.errors import DeniedError, LakesweepError, SparkJobError
from lakesweep.spark.error_translation import translating
from lakesweep.spark.kernels import map_batches, map_items

Batches = Iterator[pa.RecordBatch]

NUMBERS = pa.schema([pa.field("id", pa.int64(), nullable=False)])
TEXTS = pa.schema([("text", pa.string())])


def texts(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": list(values)}, schema=TEXTS)


def test_a_kernel_maps_every_row(spark: SparkSession) -> None:
    def negate(batches: Batches, factor: int) -> Batches:
        for batch in batches:
            numbers = [factor * number for number in batch["id"].to_pylist()]
            yield pa.RecordBatch.from_pydict({"id": numbers}, schema=NUMBERS)

    frame = map_batches(spark.range(5), negate, NUMBERS, factor=-1)
    assert sorted(row.id for row in frame.collect()) == [-4, -3, -2, -1, 0]


def test_a_kernel_sees_moments_in_utc_in_any_zone(spark: SparkSession) -> None:
    def tell(batches: Batches) -> Batches:
        for batch in batches:
            yield texts(str(batch.schema.field("at").type), batch["at"][0].as_py().isoformat())

    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        moments = spark.sql("select timestamp '2026-01-02 03:04:05.678901Z' as at")
        found = [row.text for row in map_batches(moments, tell, TEXTS).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found == ["timestamp[us, tz=UTC]", "2026-01-02T03:04:05.678901+00:00"]


def test_moments_of_a_kernel_are_those_of_spark_in_any_zone(spark: SparkSession) -> None:
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])

    def yield_moment(batches: Batches) -> Batches:
        for _ in batches:
            moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
            yield pa.RecordBatch.from_pydict({"at": [moment]}, schema=schema)

    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        frame = map_batches(spark.range(1), yield_moment, schema)
        found = frame.selectExpr("unix_micros(at) as micros").first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found is not None
    assert found.micros == 1767323045678901


def test_large_strings_and_columns_in_another_order_arrive(spark: SparkSession) -> None:
    schema = pa.schema([("text", pa.large_string()), ("id", pa.int64())])

    def yield_large(batches: Batches) -> Batches:
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"id": [1], "text": pa.array(["é" * 1000], pa.large_string())}
            )

    row = map_batches(spark.range(1), yield_large, schema).first()
    assert row is not None
    assert (row.text, row.id) == ("é" * 1000, 1)


def test_a_large_batch_arrives_whole(spark: SparkSession) -> None:
    def yield_many(batches: Batches) -> Batches:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": range(200_000)}, schema=NUMBERS)

    assert map_batches(spark.range(1), yield_many, NUMBERS).count() == 200_000


def test_partitions_without_rows_do_no_harm(spark: SparkSession) -> None:
    def count(batches: Batches) -> Batches:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"id": [rows]}, schema=NUMBERS)

    frame = map_batches(spark.range(2).repartition(5), count, NUMBERS)
    assert sum(row.id for row in frame.collect()) == 2


def test_a_kernel_may_yield_nothing(spark: SparkSession) -> None:
    def yield_nothing(batches: Batches) -> Batches:
        for _ in batches:
            yield texts()

    assert map_batches(spark.range(5), yield_nothing, TEXTS).collect() == []


def test_a_null_where_none_may_be_is_an_error(spark: SparkSession) -> None:
    def yield_null(batches: Batches) -> Batches:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": pa.array([None], pa.int64())})

    with pytest.raises(SparkJobError, match="null"), translating():
        map_batches(spark.range(1), yield_null, NUMBERS).collect()


def test_an_error_of_ours_comes_out_as_it_was_raised(spark: SparkSession) -> None:
    def refuse(batches: Batches) -> Batches:
        for _ in batches:
            raise DeniedError("s3://lake/é", "no right", hint="ask for it")
        yield texts()

    with pytest.raises(LakesweepError) as caught, translating():
        map_batches(spark.range(1), refuse, TEXTS).collect()
    assert vars(caught.value) == vars(DeniedError("s3://lake/é", "no right", hint="ask for it"))
    assert type(caught.value) is DeniedError


def test_any_other_error_is_told_by_its_cause(spark: SparkSession) -> None:
    def fail(batches: Batches) -> Batches:
        for _ in batches:
            raise KeyError("nobody")
        yield texts()

    with pytest.raises(SparkJobError, match="inside Spark: KeyError: 'nobody'"), translating():
        map_batches(spark.range(1), fail, TEXTS).collect()


def test_each_item_is_a_task(spark: SparkSession) -> None:
    def spell(item: str, suffix: str) -> Batches:
        yield texts(item + suffix)

    frame = map_items(spark, ["a", "b", "c"], spell, TEXTS, suffix="!")
    assert sorted(row.text for row in frame.collect()) == ["a!", "b!", "c!"]
    assert frame.rdd.getNumPartitions() == 3


def test_no_items_make_no_rows(spark: SparkSession) -> None:
    def fail(item: str) -> Batches:
        raise AssertionError(item)

    assert map_items(spark, [], fail, TEXTS).collect() == []
