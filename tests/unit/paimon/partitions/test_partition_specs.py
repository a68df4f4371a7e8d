from __future__ import annotations

from decimal import Decimal

import pytest

from lakesweep.errors import UsageError
from lakesweep.paimon.model.binary_row import Value, encode_row
from lakesweep.paimon.model.data_types import Timestamp, parse_type
from lakesweep.paimon.model.partitioning import Partitioning, PartitionKey
from lakesweep.paimon.partitions.partition_specs import (
    matching_partitions,
    parse_spec,
    parse_value,
    partitions_of_specs,
)
from lakesweep.paimon.partitions.snapshot_partitions import Partition


def _naming(**kinds: str) -> Partitioning:
    keys = tuple(PartitionKey(name, parse_type(kind)) for name, kind in kinds.items())
    return Partitioning(keys, "__DEFAULT_PARTITION__", legacy=True)


def _partition(naming: Partitioning, *values: Value) -> Partition:
    data = encode_row(values, naming.types)
    return Partition(data, values, naming.path(values), 1, 1, 1, None)


BY_TEXT = _naming(k="STRING")
BY_TWO = _naming(dt="STRING", hr="INT")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("dt=2021-03-01", {"dt": "2021-03-01"}),
        ("dt=2021-03-01,hr=5", {"dt": "2021-03-01", "hr": "5"}),
        ("hr=5,dt=a", {"hr": "5", "dt": "a"}),
        ("dt=2021-03-01/hr=5", {"dt": "2021-03-01", "hr": "5"}),
        ("dt=a,b/c=d,hr=5", {"dt": "a,b/c=d", "hr": "5"}),
        ("dt=", {"dt": ""}),
        ("dt=hr=5", {"dt": "hr=5"}),
    ],
)
def test_only_names_of_keys_end_a_value(text: str, spec: dict[str, str]) -> None:
    assert parse_spec(text, BY_TWO) == spec


@pytest.mark.parametrize("text", ["day=1", "=1", "", "2021-03-01"])
def test_a_key_that_is_not_there_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="no partition key") as caught:
        parse_spec(text, BY_TWO)
    assert "dt, hr" in (caught.value.hint or "")


def test_a_key_without_a_value_is_told() -> None:
    with pytest.raises(UsageError, match="'dt' names a key without a value"):
        parse_spec("dt", BY_TWO)


@pytest.mark.parametrize(("text", "value"), [("0.0", "0.0"), ("0", "0.0"), ("-0.0", "-0.0")])
def test_zeros_of_either_sign_are_partitions_of_their_own(text: str, value: str) -> None:
    naming = _naming(k="DOUBLE")
    partitions = [_partition(naming, -0.0), _partition(naming, 0.0), _partition(naming, None)]
    found = matching_partitions({"k": text}, naming, partitions)
    assert [each.path for each in found] == [f"k={value}"]


def test_a_key_that_is_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_spec("dt=a,dt=b", BY_TWO)


def test_a_table_without_partitions_is_told_so() -> None:
    with pytest.raises(UsageError, match="not partitioned"):
        parse_spec("dt=a", _naming())


def _found(naming: Partitioning, spec: dict[str, Value], *values: tuple[Value, ...]) -> list[str]:
    partitions = [_partition(naming, *each) for each in values]
    return [partition.path for partition in matching_partitions(spec, naming, partitions)]


def test_a_partial_spec_means_all_partitions_with_its_values() -> None:
    there = [("a", 1), ("a", 2), ("b", 1)]
    assert _found(BY_TWO, {"dt": "a"}, *there) == ["dt=a/hr=1", "dt=a/hr=2"]
    assert _found(BY_TWO, {"hr": "1"}, *there) == ["dt=a/hr=1", "dt=b/hr=1"]
    assert _found(BY_TWO, {"hr": 1, "dt": "b"}, *there) == ["dt=b/hr=1"]
    assert _found(BY_TWO, {"hr": "3"}, *there) == []


def test_a_value_is_taken_as_it_is_before_it_is_taken_for_the_name_of_a_folder() -> None:
    assert _found(BY_TEXT, {"k": "x/y"}, ("x/y",)) == ["k=x%2Fy"]
    assert _found(BY_TEXT, {"k": "x%2Fy"}, ("x/y",)) == ["k=x%2Fy"]
    assert _found(BY_TEXT, {"k": "x%2Fy"}, ("x/y",), ("x%2Fy",)) == ["k=x%252Fy"]


def test_null_and_blank_are_two_partitions_of_one_folder() -> None:
    there = [(None,), ("",), ("  ",)]
    found = [
        [
            partition.values
            for partition in matching_partitions(
                {"k": text}, BY_TEXT, [_partition(BY_TEXT, *each) for each in there]
            )
        ]
        for text in ("__DEFAULT_PARTITION__", "", "  ", None)
    ]
    assert found == [[(None,)], [("",)], [("  ",)], [(None,)]]


def test_dates_are_found_by_date_and_by_the_number_of_their_folder() -> None:
    naming = _naming(day="DATE")
    assert _found(naming, {"day": "2020-03-01"}, (18322,), (1,)) == ["day=18322"]
    assert _found(naming, {"day": "18322"}, (18322,), (1,)) == ["day=18322"]


def test_a_value_that_swallowed_an_unknown_key_is_told() -> None:
    with pytest.raises(UsageError, match="no partition key 'hour'"):
        _found(BY_TEXT, {"k": "a,hour=3"}, ("a",))
    assert _found(BY_TEXT, {"k": "a,hour=3"}, ("a,hour=3",)) == ["k=a,hour%3D3"]


def test_several_specs_name_each_partition_once_in_the_order_of_folders() -> None:
    there = [_partition(BY_TWO, *each) for each in (("b", 1), ("a", 2), ("a", 1))]
    found = partitions_of_specs([{"hr": "1"}, {"dt": "a"}], BY_TWO, there)
    assert [each.path for each in found] == ["dt=a/hr=1", "dt=a/hr=2", "dt=b/hr=1"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BOOLEAN", "True", True),
        ("TINYINT", "-128", -128),
        ("BIGINT", "+9223372036854775807", 2**63 - 1),
        ("DOUBLE", "1e3", 1000.0),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DECIMAL(5, 2)", "1.010", Decimal("1.01")),
        ("BYTES", "ä", "ä".encode()),
        ("DATE", "2020-3-1", 18322),
        ("DATE", "2020-03-01 00:00:00", 18322),
        ("TIME(3)", "12:34:56.7", 45_296_700),
        ("TIMESTAMP(3)", "1970-01-01 00:00:01.5", Timestamp(1500)),
        ("TIMESTAMP(9)", "1970-01-01T00:00:00.000000001", Timestamp(0, 1)),
        ("TIMESTAMP(0)", "1970-01-01 00:00:00.0", Timestamp(0)),
    ],
)
def test_texts_become_values_of_the_type(kind: str, text: str, value: Value) -> None:
    assert parse_value(text, parse_type(kind)) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "maybe"),
        ("TINYINT", "128"),
        ("INT", "1.0"),
        ("INT", ""),
        ("INT", "\uff11"),
        ("DECIMAL(3, 2)", "10"),
        ("DECIMAL(3, 2)", "x"),
        ("DATE", "2020-02-30"),
        ("DATE", "yesterday"),
        ("TIME", "25:00:00"),
        ("TIME(3)", "12:34:56.7009"),
        ("DOUBLE", "1_0"),
        ("DECIMAL(4, 1)", "1_0"),
        ("TIMESTAMP(3)", "2020-01-01 99:00:00"),
        # What they would be rounded to is another partition.
        ("DECIMAL(5, 2)", "1.005"),
        ("DATE", "2020-03-01 12:00:00"),
        ("TIMESTAMP(0)", "1970-01-01 00:00:00.9"),
    ],
)
def test_texts_that_are_no_values_are_refused(kind: str, text: str) -> None:
    with pytest.raises(UsageError, match="is not a value of type"):
        parse_value(text, parse_type(kind))


@pytest.mark.parametrize("kind", ["ROW<a INT>", "ARRAY<INT>", "WHATEVER", ""])
def test_types_that_no_key_can_have_are_refused(kind: str) -> None:
    with pytest.raises(UsageError, match="no partition key can have the type"):
        parse_type(kind)
