from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lakesweep.errors import UsageError
from lakesweep.paimon.model.binary_row import Value
from lakesweep.paimon.model.data_types import Timestamp, parse_type
from lakesweep.paimon.model.partitioning import Partitioning, PartitionKey
from lakesweep.paimon.partitions.partition_times import PartitionTime, ValuesTime, update_time

TOKYO = ZoneInfo("Asia/Tokyo")


def _naming(**kinds: str) -> Partitioning:
    keys = tuple(PartitionKey(name, parse_type(kind)) for name, kind in kinds.items())
    return Partitioning(keys, "none", legacy=True)


def _time(
    naming: Partitioning, *values: Value, formatter: str | None = None, pattern: str | None = None
) -> str | None:
    time = ValuesTime(naming, formatter, pattern).time_of(values).time
    return None if time is None else time.isoformat(sep=" ")


@pytest.mark.parametrize(
    ("kind", "value", "time"),
    [
        ("DATE", 18322, "2020-03-01 00:00:00"),
        ("TIMESTAMP(3)", Timestamp(1_600_000_000_000), "2020-09-13 12:26:40"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", Timestamp(0), "1970-01-01 00:00:00"),
        ("STRING", "2020-3-1", "2020-03-01 00:00:00"),
        ("STRING", "2020-03-01 05:00:00", "2020-03-01 05:00:00"),
    ],
)
def test_the_first_value_is_the_time(kind: str, value: Value, time: str) -> None:
    assert _time(_naming(k=kind, hr="STRING"), value, None) == time


def test_a_local_timestamp_is_on_the_clock_of_the_zone() -> None:
    times = ValuesTime(_naming(k="TIMESTAMP(3) WITH LOCAL TIME ZONE"), zone=TOKYO)
    assert times.time_of([Timestamp(0)]) == PartitionTime(
        datetime.fromisoformat("1970-01-01T09:00")
    )


def test_numbers_are_read_by_a_pattern_like_texts() -> None:
    assert _time(_naming(k="INT"), 20200301, formatter="yyyyMMdd") == "2020-03-01 00:00:00"
    assert _time(_naming(k="INT"), 20200301) is None


def test_a_pattern_puts_keys_together_the_longest_names_first() -> None:
    naming = _naming(d="STRING", dt="STRING", day="DATE", hr="INT")
    values = ("x", "20200301", 18322, 5)
    assert _time(naming, *values, pattern="$dt 0$hr", formatter="yyyyMMdd HH") == (
        "2020-03-01 05:00:00"
    )
    assert _time(naming, *values, pattern="$day $hr:00:00") == "2020-03-01 05:00:00"
    assert _time(naming, "$dt", *values[1:], pattern="$d") is None


def test_a_null_among_the_keys_of_a_pattern_is_no_time() -> None:
    times = ValuesTime(_naming(dt="STRING", hr="STRING"), pattern="$dt")
    assert times.time_of(("2020-03-01", None)) == PartitionTime(None, "hr is null")


def test_what_cannot_be_read_says_why() -> None:
    found = ValuesTime(_naming(dt="STRING"), formatter="yyyyMMdd").time_of(("soon",))
    assert found == PartitionTime(None, "'soon' does not match 'yyyyMMdd'")


def test_a_pattern_that_names_no_key_is_refused() -> None:
    with pytest.raises(UsageError, match="names no key") as caught:
        ValuesTime(_naming(dt="STRING", hr="STRING"), pattern="$day")
    assert "$dt, $hr" in (caught.value.hint or "")


def test_a_wrong_formatter_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="has no meaning"):
        ValuesTime(_naming(dt="STRING"), formatter="yyyy-bb")


def test_the_newest_file_is_as_new_as_its_writer_said() -> None:
    millis = int(datetime(2020, 3, 1, 5, tzinfo=UTC).timestamp() * 1000)
    assert update_time(millis) == PartitionTime(datetime.fromisoformat("2020-03-01T05:00"))
    assert update_time(None).time is None
