"""Filters judged on what is known of a file, against the rows that it could have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.scan.filters import (
    BoundTerm,
    ColumnNames,
    ColumnRange,
    bind_filter,
    residual_of,
)
from lakesweep.iceberg.scan.partitions import PartitionColumn
from lakesweep.iceberg.scan.single_values import parse_literal, show_value
from tests.random_tests import Cases

INNER = {"id": 4, "name": "x", "type": "date"}
SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "a", "type": "long"},
        {"id": 2, "name": "B", "type": "string"},
        {"id": 3, "name": "s", "type": {"type": "struct", "fields": [INNER]}},
    ],
}
NAMES = ColumnNames.of(SCHEMA)
_COMPARED = ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq")
Row = dict[int, Any]


def _filter(chance: Random, depth: int = 0) -> Any:
    match chance.randrange(7 if depth < 3 else 4):
        case 0:
            name = chance.choice(["is-null", "not-null"])
            return {"type": name, "term": chance.choice(["a", "B"])}
        case 1:
            name = chance.choice(["in", "not-in"])
            values = [chance.randrange(6) for _ in range(chance.randrange(3))]
            return {"type": name, "term": "a", "values": values}
        case 2:
            name = chance.choice([*_COMPARED, "starts-with", "not-starts-with"])
            return {"type": name, "term": "B", "value": chance.choice(["", "a", "ab", "b", "c"])}
        case 3:
            return {"type": chance.choice(_COMPARED), "term": "a", "value": chance.randrange(6)}
        case 4:
            return {"type": "not", "child": _filter(chance, depth + 1)}
        case _:
            left, right = _filter(chance, depth + 1), _filter(chance, depth + 1)
            return {"type": chance.choice(["and", "or"]), "left": left, "right": right}


def _holds(json: Any, row: Row, *, nulls_match: bool, negate: bool = False) -> bool:
    """The meaning of a filter, with negations at the predicates, in both readings of nulls."""
    if isinstance(json, bool):
        return json is not negate
    kind = json["type"]
    if kind == "not":
        return _holds(json["child"], row, nulls_match=nulls_match, negate=not negate)
    if kind in ("and", "or"):
        sides = [
            _holds(json[side], row, nulls_match=nulls_match, negate=negate)
            for side in ("left", "right")
        ]
        return all(sides) if (kind == "and") is not negate else any(sides)
    value = row[1 if json["term"] == "a" else 2]
    if kind in ("is-null", "not-null"):
        return ((value is None) is (kind == "is-null")) is not negate
    is_negative = kind.startswith("not-")
    if value is None:
        is_order = kind in ("lt", "lt-eq", "gt", "gt-eq")
        return nulls_match and not is_order and is_negative is not negate
    positive = kind.removeprefix("not-")
    meanings: dict[str, Callable[[], bool]] = {
        "lt": lambda: value < json["value"],
        "lt-eq": lambda: value <= json["value"],
        "gt": lambda: value > json["value"],
        "gt-eq": lambda: value >= json["value"],
        "eq": lambda: value == json["value"],
        "in": lambda: value in json["values"],
        "starts-with": lambda: value.startswith(json["value"]),
    }
    return bool(meanings[positive]()) is not (is_negative is not negate)


def _range(values: list[Any], chance: Random) -> ColumnRange:
    known = [each for each in values if each is not None]
    is_known = known and chance.random() < 0.8
    return ColumnRange(
        min(known) if is_known else None,
        max(known) if is_known else None,
        may_be_null=len(known) < len(values) or chance.random() < 0.2,
        is_all_null=not known and chance.random() < 0.8,
        may_be_nan=False,
    )


def _residual(json: Any, ranges: Mapping[int, ColumnRange]) -> Any:
    def facts(term: BoundTerm) -> ColumnRange:
        return ranges[term.field_id]

    return residual_of(bind_filter(json, NAMES), facts, lambda _, __: True)


def test_no_row_is_lost_and_residuals_mean_the_same(cases: Cases) -> None:
    for chance in cases(3_000):
        json = _filter(chance)
        rows: list[Row] = [
            {
                1: chance.choice([None, *range(6)]),
                2: chance.choice([None, "", "a", "ab", "abc", "b", "c"]),
            }
            for _ in range(chance.randint(1, 3))
        ]
        ranges = {number: _range([row[number] for row in rows], chance) for number in (1, 2)}
        residual = _residual(json, ranges)
        for row in rows:
            for nulls_match in (True, False):
                before = _holds(json, row, nulls_match=nulls_match)
                after = _holds(residual, row, nulls_match=nulls_match)
                assert before == after, (json, residual, row, ranges)


def test_names_are_found_with_and_without_their_case() -> None:
    assert NAMES.find("s.x") == (4, "date")
    with pytest.raises(InvalidUpdateError, match="Cannot find field 'b'"):
        NAMES.find("b")
    assert ColumnNames.of(SCHEMA, case_sensitive=False).find("b") == (2, "string")


@pytest.mark.parametrize(
    "json",
    [
        1,
        "x",
        [],
        {},
        {"type": "maybe"},
        {"type": "eq", "term": "a"},
        {"type": "eq", "term": "a", "value": "x"},
        {"type": "in", "term": "a", "values": 1},
        {"type": "not"},
        {"type": "and", "left": True},
        {"type": "eq", "term": "s.x", "value": "2026-02-31"},
        {"type": "eq", "term": ["a"], "value": 1},
        {"type": ["eq"], "term": "a", "value": 1},
    ],
)
def test_what_is_no_filter_is_refused(json: Any) -> None:
    with pytest.raises(InvalidUpdateError):
        bind_filter(json, NAMES)


@pytest.mark.parametrize("json", [True, {"type": "true"}, {"type": "literal", "value": True}])
def test_constants_have_several_spellings(json: Any) -> None:
    assert bind_filter(json, NAMES) is True
    assert bind_filter({"type": "not", "child": json}, NAMES) is False


def test_a_transform_in_a_filter_decides_nothing() -> None:
    term = {"type": "transform", "transform": "bucket[4]", "term": "a"}
    json = {"type": "eq", "term": term, "value": 1}
    bound = bind_filter(json, NAMES)
    assert residual_of(bound, lambda _: ColumnRange(9, 9), lambda _, __: True) == json


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "1969-12-31"),
        ("time", "23:59:59.000001"),
        ("timestamp", "2026-11-18T12:00:00.000001"),
        ("timestamptz", "1969-12-31T23:59:59.999999+00:00"),
        ("timestamp_ns", "2026-11-18T12:00:00.000000001"),
        ("decimal(9, 2)", "-1.50"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("binary", "00FF"),
        ("string", "é"),
        ("boolean", True),
        ("long", 5),
    ],
)
def test_values_are_shown_as_they_were_sent(kind: str, text: Any) -> None:
    assert show_value(kind, parse_literal(kind, text)) == text


@pytest.mark.parametrize(
    ("transform", "kind", "value", "inside", "outside"),
    [
        ("day", "timestamp", 1, ["1970-01-02T23:59:59"], ["1970-01-03T00:00"]),
        ("month", "date", -1, ["1969-12-01", "1969-12-31"], ["1970-01-01", "1969-11-30"]),
        ("year", "date", 56, ["2026-01-01", "2026-12-31"], ["2027-01-01"]),
        ("hour", "timestamptz", -1, ["1969-12-31T23:59:59+00:00"], ["1970-01-01T00:00:00+00:00"]),
        ("truncate[10]", "long", -10, [-10, -1], [0, -11]),
        ("truncate[2]", "string", "ab", ["ab", "abz"], ["ad", "aa"]),
        ("truncate[2]", "string", "a", ["a"], ["ab"]),
        ("identity", "string", "x", ["x"], ["y"]),
        ("truncate[50]", "decimal(9,2)", Decimal("1.50"), ["1.50", "1.99"], ["2.00"]),
    ],
)  # fmt: skip
def test_partitions_bound_their_source(
    transform: str, kind: str, value: Any, inside: list[Any], outside: list[Any]
) -> None:
    low, high = PartitionColumn(1000, "p", 1, transform, kind, kind).bounds(value, value)
    assert all(low <= parse_literal(kind, each) <= high for each in inside)
    assert not any(low <= parse_literal(kind, each) <= high for each in outside)


def test_a_bucket_is_that_of_iceberg() -> None:
    column = PartitionColumn(1000, "p", 1, "bucket[100]", "long", "int")
    assert column.bucket(34) == 2017239379 % 100  # the hash of 34 that the format states
    assert PartitionColumn(1000, "p", 1, "identity", "long", "long").bucket(34) is None
    assert BoundTerm(1, "long").transform is None
