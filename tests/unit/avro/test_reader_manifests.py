"""Iceberg manifests of every partition type, version and codec."""

from __future__ import annotations

import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import data_file_with_partition, manifest_entry_schema_with_data_file
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from lakesweep.avro import ProjectedColumn
from tests.avro_files import CODECS, only_batch, write_avro

COLUMNS = (
    ProjectedColumn("status", ids=(0,), required=True, type=pa.int32()),
    ProjectedColumn("path", ids=(2, 100), required=True, type=pa.string()),
    ProjectedColumn("content", ids=(2, 134), type=pa.int32()),
    ProjectedColumn("format", ids=(2, 101), required=True, type=pa.string()),
    ProjectedColumn("size", ids=(2, 104), required=True, type=pa.int64()),
    ProjectedColumn("offset", ids=(2, 144), type=pa.int64()),
)

PARTITIONS: dict[str, tuple[PrimitiveType, Any]] = {
    "boolean": (BooleanType(), True),
    "int": (IntegerType(), -5),
    "long": (LongType(), 2**40),
    "float": (FloatType(), 0.5),
    "double": (DoubleType(), 0.1),
    "date": (DateType(), 20000),
    "timestamp": (TimestampType(), 1_700_000_000_000_000),
    "string": (StringType(), "a/b=c"),
    "uuid": (UUIDType(), uuid.UUID(int=7).bytes),
    "fixed": (FixedType(5), b"12345"),
    "binary": (BinaryType(), b"\x00\xff"),
    "decimal": (DecimalType(9, 2), decimal.Decimal("1.25")),
}


def manifest(version: Any, partition: StructType, value: Any, codec: str) -> bytes:
    """A manifest of three entries, the second with all kinds of statistics."""
    file_type = data_file_with_partition(partition, version)
    schema = manifest_entry_schema_with_data_file(version, file_type)
    avro = AvroSchemaConversion().iceberg_to_avro(schema, schema_name="manifest_entry")
    return write_avro(avro, [entry(file_type, i, value) for i in range(3)], codec, 1)


def entry(file_type: StructType, i: int, partition: Any) -> dict[str, Any]:
    file: dict[str, Any] = {
        **{field.name: None for field in file_type.fields},
        "content": i,
        "file_path": f"s3://bucket/ž/{i}.parquet",
        "file_format": "PARQUET",
        "partition": partition,
        "record_count": 1,
        "file_size_in_bytes": 2**33 + i,
        "block_size_in_bytes": 64,
    }
    if i == 1:
        counts = [{"key": 1, "value": 10}, {"key": 1000, "value": 2**40}]
        bounds = [{"key": 1, "value": b"a"}, {"key": 1000, "value": b"b" * 100}]
        for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
            file[name] = counts
        file |= {"lower_bounds": bounds, "upper_bounds": bounds, "split_offsets": [4, 2**30]}
    return {
        "status": i,
        "snapshot_id": 2**62,
        "sequence_number": None,
        "file_sequence_number": i,
        "data_file": file,
    }


def expected(version: int) -> list[dict[str, Any]]:
    return [
        {
            "status": i,
            "path": f"s3://bucket/ž/{i}.parquet",
            "content": None if version == 1 else i,
            "format": "PARQUET",
            "size": 2**33 + i,
            "offset": None,
        }
        for i in range(3)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [1, 2])
class TestManifests:
    def test_of_tables_without_partitions(self, version: int, codec: str) -> None:
        data = manifest(version, StructType(), {}, codec)
        assert only_batch(data, *COLUMNS).to_pylist() == expected(version)

    @pytest.mark.parametrize("kind", PARTITIONS)
    def test_of_every_partition_type(self, version: int, codec: str, kind: str) -> None:
        type_, value = PARTITIONS[kind]
        partition = StructType(NestedField(1000, "p", type_, required=False))
        data = manifest(version, partition, {"p": value}, codec)
        assert only_batch(data, *COLUMNS).to_pylist() == expected(version)

    def test_with_a_null_partition(self, version: int, codec: str) -> None:
        partition = StructType(NestedField(1000, "p", StringType(), required=False))
        data = manifest(version, partition, {"p": None}, codec)
        assert only_batch(data, *COLUMNS).to_pylist() == expected(version)

    def test_with_odd_field_names(self, version: int, codec: str) -> None:
        odd = "a-b.c d/é9"
        sanitized = "a_x2Db_x2Ec_x20d_x2Fé9"
        partition = StructType(NestedField(1000, odd, StringType(), required=False))
        data = manifest(version, partition, {sanitized: "x"}, codec)
        assert only_batch(data, *COLUMNS).to_pylist() == expected(version)
