from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakesweep.paimon.model.binary_row import Value, encode_row
from lakesweep.paimon.model.data_types import Timestamp, parse_type
from lakesweep.paimon.model.partitioning import Partitioning, PartitionKey, partition_texts


def _by(kind: str, *, legacy: bool = True) -> Partitioning:
    return Partitioning((PartitionKey("k", parse_type(kind)),), "__DEFAULT_PARTITION__", legacy)


@pytest.mark.parametrize(
    ("kind", "value", "legacy", "cast"),
    [
        ("BOOLEAN", True, "true", "true"),
        ("INT", -4, "-4", "-4"),
        ("DOUBLE", 1.0, "1.0", "1.0"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", 1.5e-5, "1.5E-5", "1.5E-5"),
        ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
        ("DOUBLE", float("nan"), "NaN", "NaN"),
        ("DOUBLE", float("-inf"), "-Infinity", "-Infinity"),
        ("DECIMAL(10, 2)", Decimal("100.50"), "100.50", "100.50"),
        ("DATE", 18322, "18322", "2020-03-01"),
        ("TIME(3)", 45_296_100, "45296100", "12%3A34%3A56.1"),
        ("TIME", 45_296_000, "45296000", "12%3A34%3A56"),
        ("TIMESTAMP(3)", Timestamp(0), "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00.000"),
        (
            "TIMESTAMP(6)",
            Timestamp(1001, 2000),
            "1970-01-01T00%3A00%3A01.001002",
            "1970-01-01 00%3A00%3A01.001002",
        ),
        ("BYTES", b"ab", "ab", "ab"),
        ("STRING", "a/b:c", "a%2Fb%3Ac", "a%2Fb%3Ac"),
        (
            "STRING",
            "{[^]}\"'#*?\\\x01\x7f=%",
            "%7B%5B%5E%5D%7D%22%27%23%2A%3F%5C%01%7F%3D%25",
            None,
        ),
        ("STRING", "ünï-日本 +~", "ünï-日本 +~", None),
        ("STRING", None, "__DEFAULT_PARTITION__", None),
        ("STRING", " \t", "__DEFAULT_PARTITION__", None),
        ("STRING", "\u00a0", "\u00a0", None),
    ],
)
def test_folders_are_named_as_java_names_them(
    kind: str, value: Value, legacy: str, cast: str | None
) -> None:
    assert _by(kind).path([value]) == f"k={legacy}"
    assert _by(kind, legacy=False).path([value]) == f"k={cast or legacy}"


def test_folders_of_many_partitions_come_in_their_order() -> None:
    naming = _by("STRING")
    rows = [encode_row([value], naming.types) for value in ("b", "a", "b")]
    assert partition_texts(pa.array(rows, pa.binary()), naming) == ["k=b", "k=a", "k=b"]


def test_a_table_without_keys_has_one_partition_without_a_name() -> None:
    naming = Partitioning((), "none", legacy=True)
    assert naming.path(naming.decode(bytes(12))) == ""
