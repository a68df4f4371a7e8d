"""Partition values: how they compare, and the bounds that manifest lists have of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from lakesweep.untrusted.documents import JsonObject

_PACKED = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}


def partition_key(values: Iterable[Any]) -> tuple[Any, ...]:
    """Equal for the same values: null is null, and floats are compared by their bits."""
    return tuple(struct.pack("<d", each) if isinstance(each, float) else each for each in values)


def sort_key(types: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """By which files are sorted, so that those of one partition come together; nulls first."""
    return tuple(
        (value is not None, *_ordered(type_, value))
        for type_, value in zip(types, values, strict=True)
    )


def summarize(types: Sequence[Any], partitions: Sequence[tuple[Any, ...]]) -> list[JsonObject]:
    """The summary of each partition field over some files."""
    columns = zip(*partitions, strict=True) if partitions else ([] for _ in types)
    return [_summary(type_, list(values)) for type_, values in zip(types, columns, strict=True)]


def _summary(type_: Any, values: list[Any]) -> JsonObject:
    is_float = _name(type_) in ("float", "double")
    known = [each for each in values if each is not None]
    numbers = [each for each in known if not (is_float and math.isnan(each))]
    by_order = sorted(numbers, key=lambda each: _ordered(type_, each))
    return {
        "contains_null": len(known) < len(values),
        "contains_nan": len(numbers) < len(known),
        "lower_bound": _serialized(type_, by_order[0]) if by_order else None,
        "upper_bound": _serialized(type_, by_order[-1]) if by_order else None,
    }


def _name(type_: Any) -> str:
    """The name of an Avro type, without null."""
    if isinstance(type_, list):
        type_ = next(each for each in type_ if each != "null")
    return str(type_["type"]) if isinstance(type_, dict) else str(type_)


def _is_decimal(type_: Any) -> bool:
    if isinstance(type_, list):
        type_ = next(each for each in type_ if each != "null")
    return isinstance(type_, dict) and type_.get("logicalType") == "decimal"


def _ordered(type_: Any, value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if _is_decimal(type_) and isinstance(value, bytes):
        return (int.from_bytes(value, "big", signed=True),)
    if isinstance(value, str):
        return (value.encode(),)
    if isinstance(value, float):
        # Minus zero is below zero, and nothing is above what is no number.
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return (value,)


def _serialized(type_: Any, value: Any) -> bytes:
    """A value as Iceberg stores single values."""
    name = _name(type_)
    if name in _PACKED:
        return struct.pack(_PACKED[name], value)
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, str):
        return value.encode()
    if _is_decimal(type_):
        number = int.from_bytes(value, "big", signed=True)
        bits = (number if number >= 0 else ~number).bit_length()
        return number.to_bytes(bits // 8 + 1, "big", signed=True)
    return bytes(value)
