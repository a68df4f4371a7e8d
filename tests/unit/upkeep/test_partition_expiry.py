"""What partition values and bounds prove about the age of a file."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.iceberg.rewrite.manifest_entries import FileFacts
from lakesweep.upkeep.partition_expiry import AgeJudge, FileAge

CUT = datetime(2026, 3, 15, 12, 30, tzinfo=UTC)
MICROS = int(CUT.timestamp()) * 1_000_000
DAY = MICROS // 86_400_000_000


def judged(kind: str, transform: str, value: Any, **facts: Any) -> FileAge:
    specs = {0: [{"source-id": 7, "transform": transform, "name": "p", "field-id": 1000}]}
    file = FileFacts(0, "s3://b/f", "parquet", (value,), 1, 1, **facts)
    return AgeJudge.at(7, kind, CUT, specs).age(0, file)


@pytest.mark.parametrize(
    ("kind", "transform", "value", "age"),
    [
        ("timestamptz", "day", DAY - 1, FileAge.OLD),
        ("timestamptz", "day", DAY, FileAge.IN_PART),
        ("timestamptz", "day", DAY + 1, FileAge.YOUNG),
        ("timestamptz", "hour", DAY * 24 + 11, FileAge.OLD),
        ("timestamptz", "hour", DAY * 24 + 12, FileAge.IN_PART),
        ("timestamp", "month", 56 * 12 + 1, FileAge.OLD),
        ("timestamp", "month", 56 * 12 + 2, FileAge.IN_PART),
        ("timestamp_ns", "year", 55, FileAge.OLD),
        ("timestamp_ns", "year", 56, FileAge.IN_PART),
        ("timestamp", "year", 57, FileAge.YOUNG),
        ("timestamp", "day", None, FileAge.NULL),
        ("timestamp", "bucket[4]", 1, FileAge.UNKNOWN),
        ("timestamp", "something-new", 1, FileAge.UNKNOWN),
        ("timestamp", "identity", MICROS - 1, FileAge.OLD),
        ("timestamp", "identity", MICROS, FileAge.YOUNG),
        ("timestamp_ns", "identity", MICROS * 1000 - 1, FileAge.OLD),
        ("date", "identity", DAY - 1, FileAge.OLD),
        ("date", "identity", DAY, FileAge.YOUNG),
        ("string", "identity", "2026-03-14", FileAge.OLD),
        ("string", "identity", "20260314", FileAge.OLD),
        ("string", "identity", "2026-03-15", FileAge.YOUNG),
        ("string", "identity", "14.3.2026", FileAge.UNKNOWN),
        ("string", "identity", "2026-13-01", FileAge.UNKNOWN),
    ],
)
def test_a_partition_value_proves_an_age(
    kind: str, transform: str, value: Any, age: FileAge
) -> None:
    assert judged(kind, transform, value) is age


def test_before_1970_old_writers_may_be_one_off() -> None:
    specs = {0: [{"source-id": 7, "transform": "day", "name": "p", "field-id": 1000}]}
    judge = AgeJudge.at(7, "timestamp", datetime(1969, 12, 31, tzinfo=UTC), specs)
    ages = [judge.age(0, FileFacts(0, "f", "parquet", (day,), 1, 1)) for day in (-3, -2, -1)]
    assert ages == [FileAge.OLD, FileAge.IN_PART, FileAge.IN_PART]


@pytest.mark.parametrize(
    ("upper", "nulls", "age"),
    [
        (struct.pack("<q", MICROS - 1), 0, FileAge.OLD),
        (struct.pack("<q", MICROS), 0, FileAge.IN_PART),
        (struct.pack("<q", MICROS - 1), 1, FileAge.IN_PART),
        (struct.pack("<q", MICROS - 1), None, FileAge.IN_PART),
        (b"bad", 0, FileAge.IN_PART),
        (None, 0, FileAge.IN_PART),
    ],
)
def test_bounds_decide_what_a_partition_leaves_open(
    upper: bytes | None, nulls: int | None, age: FileAge
) -> None:
    facts = {
        "upper_bounds": None if upper is None else {7: upper},
        "null_counts": None if nulls is None else {7: nulls},
    }
    assert judged("timestamp", "day", DAY, **facts) is age
