"""What a partition value says of the column that it was made from.

A value of a transform stands for a range of the column: a day for all its moments, a prefix for all
that begins with it. A range is never too small, so what it excludes no row has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.schemas import primitive_type
from lakesweep.iceberg.scan.single_values import MICROS, NANOS, base_of
from lakesweep.untrusted.documents import JsonObject

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_HOURS_A_DAY, _MONTHS = 24, 12
_MICROS_AN_HOUR = 3_600_000_000
_SIZED = re.compile(r"(bucket|truncate)\[(\d{1,9})\]")
_SIMPLE = ("identity", "year", "month", "day", "hour")
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

#: The least and the greatest value; None where there is no limit.
Bounds = tuple[Any, Any]
NO_BOUNDS: Bounds = (None, None)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A field of a partition spec, with the types of its source and of its own values."""

    field_id: int
    name: str
    source_id: int
    transform: str
    source_kind: str | None
    kind: str

    @property
    def keeps_null(self) -> bool:
        """Whether a value is null exactly if that of its source is."""
        return self.transform in _SIMPLE or _SIZED.fullmatch(self.transform) is not None

    def bounds(self, low: Any, high: Any) -> Bounds:
        """The range of the source for partition values between two."""
        if self.source_kind is None:
            return NO_BOUNDS
        first = NO_BOUNDS if low is None else _range(self.transform, self.source_kind, low)
        last = NO_BOUNDS if high is None else _range(self.transform, self.source_kind, high)
        return first[0], last[1]

    def bucket(self, value: Any) -> int | None:
        """The bucket of a value of the source; None if this is no bucket."""
        found = _SIZED.fullmatch(self.transform)
        if found is None or found.group(1) != "bucket" or self.source_kind is None:
            return None
        return _bucket(self.source_kind, int(found.group(2)), value)


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """A partition spec."""

    spec_id: int
    columns: tuple[PartitionColumn, ...]


def layouts_of(
    document: RawDocument, schemas: Sequence[Mapping[str, Any]]
) -> dict[int, PartitionLayout]:
    """All specs of a table; the source of a field may be a column that was dropped since."""
    specs = document.get("partition-specs", list[JsonObject] | None)
    if specs is None:
        old = document.get("partition-spec", list[JsonObject] | None) or []
        specs = [{"spec-id": 0, "fields": old}]
    found = {}
    for spec in specs:
        fields = enumerate(spec.get("fields") or ())
        columns = tuple(_column(schemas, at, field) for at, field in fields)
        found[spec["spec-id"]] = PartitionLayout(spec["spec-id"], columns)
    return found


def _column(
    schemas: Sequence[Mapping[str, Any]], at: int, field: Mapping[str, Any]
) -> PartitionColumn:
    source, transform = field.get("source-id", -1), str(field.get("transform"))
    known = (primitive_type(dict(schema), source) for schema in schemas)
    kind = next((each for each in known if each is not None), None)
    number = field.get("field-id", 1000 + at)
    name = str(field.get("name"))
    return PartitionColumn(number, name, source, transform, kind, _result(transform, kind))


def _result(transform: str, source: str | None) -> str:
    if transform.startswith("bucket") or transform in ("year", "month", "hour"):
        return "int"
    if transform == "day":
        return "date"
    return source or "unknown"


@lru_cache(maxsize=10_000)
def _range(transform: str, source: str, value: Any) -> Bounds:
    """The range of the source for one partition value."""
    if transform == "identity":
        return value, value
    if transform in ("year", "month", "day", "hour"):
        return _moments(transform, source, value)
    found = _SIZED.fullmatch(transform)
    if found is None or found.group(1) != "truncate":
        return NO_BOUNDS
    width = int(found.group(2))
    match base_of(source):
        case "int" | "long":
            return value, value + width - 1
        case "decimal" if isinstance(value, Decimal):
            step = Decimal((0, (1,), int(value.as_tuple().exponent)))
            return value, value + (width - 1) * step
        case "string" if isinstance(value, str):
            return (value, value) if len(value) < width else (value, _after(value))
        case _:
            return NO_BOUNDS


def _moments(transform: str, source: str, value: int) -> Bounds:
    if transform == "hour":
        first, last = value, value + 1
    else:
        days = _first_day(transform, value), _first_day(transform, value + 1)
        if days[0] is None or days[1] is None:
            return NO_BOUNDS
        if source == "date":
            return days[0], days[1] - 1
        first, last = days[0] * _HOURS_A_DAY, days[1] * _HOURS_A_DAY
    if source not in (*MICROS, *NANOS):
        return NO_BOUNDS
    size = _MICROS_AN_HOUR * (1000 if source in NANOS else 1)
    return first * size, last * size - 1


def _first_day(transform: str, value: int) -> int | None:
    if transform == "day":
        return value
    months = value * _MONTHS if transform == "year" else value
    try:
        return date(1970 + months // _MONTHS, months % _MONTHS + 1, 1).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def _after(prefix: str) -> str | None:
    """Text that is greater than all that begins with a prefix."""
    while prefix:
        last = ord(prefix[-1])
        if last < _LAST_CHARACTER:
            following = _SURROGATES.stop if last + 1 in _SURROGATES else last + 1
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


def _bucket(source: str, buckets: int, value: Any) -> int | None:
    # Imported late: few scans of few tables need it.
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import BucketTransform

    field = {"id": 1, "name": "a", "type": source, "required": False}
    try:
        type_ = Schema.model_validate({"type": "struct", "fields": [field]}).find_type(1)
        found: int | None = BucketTransform(buckets).transform(type_)(value)
    except Exception:
        return None  # a type that is not hashed, or a value that does not fit: nothing is known
    return found
