"""The types of Arrow and of Spark, one for one."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

_TYPES: dict[pa.DataType, spark.DataType] = {
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.bool_(): spark.BooleanType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float64(): spark.DoubleType(),
    pa.timestamp("us", tz="UTC"): spark.TimestampType(),
    pa.list_(pa.string()): spark.ArrayType(spark.StringType()),
}
_ARROW = {kind: arrow for arrow, kind in reversed(_TYPES.items())}


def to_spark(schema: pa.Schema) -> spark.StructType:
    """The columns of Arrow batches as Spark has them; ValueError for a type that we do not use."""
    return spark.StructType([_spark_field(field) for field in schema])


def to_arrow(schema: spark.StructType) -> pa.Schema:
    """The columns of a DataFrame as Arrow has them; ValueError for a type that we do not use."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def on_the_wire(schema: pa.Schema) -> pa.Schema:
    """The same columns in the types that Spark itself reads."""
    return to_arrow(to_spark(schema))


def _spark_field(field: pa.Field) -> spark.StructField:
    if field.type not in _TYPES:
        raise ValueError(f"no column of type {field.type} goes through Spark, such as {field.name}")
    return spark.StructField(field.name, _TYPES[field.type], field.nullable)


def _arrow_field(field: spark.StructField) -> pa.Field:
    if field.dataType not in _ARROW:
        kind = field.dataType.simpleString()
        raise ValueError(f"no column of type {kind} goes into a dataset, such as {field.name}")
    return pa.field(field.name, _ARROW[field.dataType], field.nullable)
