from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import DamagedError
from lakesweep.paimon.model.binary_row import Value, decode_row, encode_row
from lakesweep.paimon.model.data_types import DataType, DataTypeRoot, Timestamp, parse_type

_STRING, _INT = parse_type("STRING"), parse_type("INT NOT NULL")


@pytest.mark.parametrize(
    ("kind", "value", "row"),
    [
        ("STRING", "abc", "00000001 0000000000000000 6162630000000083"),
        (
            "VARCHAR(20)",
            "2021-03-02",
            "00000001 0000000000000000 0a00000010000000 323032312d30332d3032000000000000",
        ),
        ("INT", -4, "00000001 0000000000000000 fcffffff00000000"),
        ("DATE", 18322, "00000001 0000000000000000 9247000000000000"),
        ("BOOLEAN", True, "00000001 0000000000000000 0100000000000000"),
        ("STRING", None, "00000001 0001000000000000 0000000000000000"),
        ("DECIMAL(10, 2)", Decimal("-1.05"), "00000001 0000000000000000 97ffffffffffffff"),
        (
            "DECIMAL(20, 2)",
            Decimal("1.05"),
            "00000001 0000000000000000 0100000010000000 69000000000000000000000000000000",
        ),
        ("TIMESTAMP(3)", Timestamp(1), "00000001 0000000000000000 0100000000000000"),
        (
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            Timestamp(-1, 5000),
            "00000001 0000000000000000 8813000010000000 ffffffffffffffff",
        ),
    ],
)
def test_rows_are_laid_out_as_java_lays_them_out(kind: str, value: Value, row: str) -> None:
    types, data = [parse_type(kind)], bytes.fromhex(row)
    assert encode_row([value], types) == data
    assert decode_row(data, types) == (value,)


def test_a_row_without_fields_is_twelve_zero_bytes() -> None:
    assert encode_row([], []) == bytes(12)
    assert decode_row(bytes(12), []) == ()


_VALUES: dict[DataTypeRoot, st.SearchStrategy[Value]] = {
    DataTypeRoot.BOOLEAN: st.booleans(),
    DataTypeRoot.TINYINT: st.integers(-(2**7), 2**7 - 1),
    DataTypeRoot.SMALLINT: st.integers(-(2**15), 2**15 - 1),
    DataTypeRoot.INT: st.integers(-(2**31), 2**31 - 1),
    DataTypeRoot.BIGINT: st.integers(-(2**63), 2**63 - 1),
    DataTypeRoot.FLOAT: st.floats(width=32, allow_nan=False),
    DataTypeRoot.DOUBLE: st.floats(allow_nan=False),
    DataTypeRoot.VARCHAR: st.text(),
    DataTypeRoot.VARBINARY: st.binary(),
    DataTypeRoot.DATE: st.integers(-(2**31), 2**31 - 1),
    DataTypeRoot.TIME: st.integers(0, 86_399_999),
}


def _typed() -> st.SearchStrategy[tuple[DataType, Value]]:
    plain = st.sampled_from(list(_VALUES)).flatmap(
        lambda root: st.tuples(st.just(DataType(root)), st.none() | _VALUES[root])
    )
    decimals = st.tuples(st.integers(1, 38), st.integers(0, 5)).flatmap(_decimals)
    stamps = st.integers(0, 9).flatmap(_timestamps)
    return plain | decimals | stamps


def _decimals(sizes: tuple[int, int]) -> st.SearchStrategy[tuple[DataType, Value]]:
    digits, scale = sizes[0], min(sizes)
    unscaled = st.integers(-(10**digits) + 1, 10**digits - 1)
    kind = DataType(DataTypeRoot.DECIMAL, digits, scale)
    made = unscaled.map(lambda number: Decimal(f"{number}E-{scale}"))
    return st.tuples(st.just(kind), made)


def _timestamps(precision: int) -> st.SearchStrategy[tuple[DataType, Value]]:
    nanos = st.just(0) if precision <= 3 else st.integers(0, 999_999)
    made = st.builds(Timestamp, st.integers(-(2**60), 2**60), nanos)
    return st.tuples(st.just(DataType(DataTypeRoot.TIMESTAMP, precision)), made)


@given(st.lists(_typed(), max_size=70))
def test_what_is_encoded_is_decoded_again(fields: list[tuple[DataType, Value]]) -> None:
    types, values = [kind for kind, _ in fields], tuple(value for _, value in fields)
    assert decode_row(encode_row(values, types), types) == values


@given(st.binary(max_size=60))
def test_any_other_bytes_are_damage_or_values_and_never_a_crash(data: bytes) -> None:
    try:
        values = decode_row(data, [_STRING, _INT])
    except DamagedError:
        return
    assert len(values) == 2


def test_a_row_of_other_keys_is_damage() -> None:
    with pytest.raises(DamagedError, match="has 1 fields, not 2"):
        decode_row(encode_row(["a"], [_STRING]), [_STRING, _INT])
