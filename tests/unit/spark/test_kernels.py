from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from lakesweep.spark.kernels import on_the_wire, to_arrow, to_spark
from lakesweep.storage.file_batches import FILE_SCHEMA, OUTCOME_SCHEMA


@pytest.mark.parametrize("schema", [FILE_SCHEMA, OUTCOME_SCHEMA])
def test_our_columns_go_through_spark_unchanged(schema: pa.Schema) -> None:
    assert to_arrow(to_spark(schema)) == schema


def test_what_cannot_be_null_stays_so() -> None:
    schema = to_spark(pa.schema([pa.field("h1", pa.int64(), nullable=False)]))
    assert schema == StructType([StructField("h1", LongType(), nullable=False)])


def test_large_strings_become_what_spark_reads() -> None:
    schema = pa.schema([("path", pa.large_string())])
    assert on_the_wire(schema) == pa.schema([("path", pa.string())])


def test_a_type_that_we_do_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        to_spark(pa.schema([("x", pa.uint8())]))
    with pytest.raises(ValueError, match="array<array<string>>"):
        to_arrow(StructType([StructField("x", ArrayType(ArrayType(StringType())))]))
