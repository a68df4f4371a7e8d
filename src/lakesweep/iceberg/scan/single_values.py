"""Single values of Iceberg's primitive types: literals in JSON, bounds, and partition values.

A value is compared as Python compares it: numbers, text by code points, bytes, and moments as
days, microseconds or nanoseconds since 1970. What cannot be compared here is None, which decides
nothing.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from uuid import UUID

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOMENT = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?)(\.(?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)?"
)
_TIME = re.compile(r"(?P<whole>\d\d:\d\d(:\d\d)?)(\.(?P<part>\d{1,9}))?")
_PACKED = {4: "<i", 8: "<q"}
_PACKED_FLOATS = {4: "<f", 8: "<d"}
_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*(\d+)\s*\)")
_NANOS = 1000
NANOS = ("timestamp_ns", "timestamptz_ns")
MICROS = ("timestamp", "timestamptz")
_ZONED = ("timestamptz", "timestamptz_ns")
_INTEGERS = ("int", "long", "date", "time", *MICROS, *NANOS)
_FLOATS = ("float", "double")


def base_of(kind: str) -> str:
    """The name of a type without its size."""
    return re.split(r"[(\[]", kind, maxsplit=1)[0]


def is_float(kind: str) -> bool:
    """Whether values of a type may be no number."""
    return kind in _FLOATS


@lru_cache(maxsize=1000)
def _scale(kind: str) -> int:
    found = _DECIMAL.fullmatch(kind)
    return int(found.group(1)) if found else 0


def parse_literal(kind: str, value: Any) -> Any:
    """A literal of a filter. ValueError if it is none of that type."""
    try:
        return _parsed(kind, value)
    except (TypeError, ArithmeticError, InvalidOperation, AttributeError):
        raise ValueError(f"{value!r:.80} is no {kind}") from None


def _parsed(kind: str, value: Any) -> Any:
    base = base_of(kind)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and base in _NUMBERS:
        return value
    if base == "boolean" and isinstance(value, bool):
        return value
    if base == "decimal" and is_number:
        return Decimal(str(value))
    parse = _TEXTS.get(base)
    if parse is None or not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no {kind}")
    found = parse(value)
    if isinstance(found, Decimal) and not found.is_finite():
        raise ValueError(f"{value!r:.80} is no {kind}")
    return found


def _nanos(text: str) -> int:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no moment")
    zone = found["zone"] or "+00:00"
    whole = datetime.fromisoformat(found["whole"] + zone)
    return (whole - _EPOCH) // _MICROSECOND * _NANOS + _fraction(found["part"])


def _micros_of_day(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no time")
    at = time.fromisoformat(found["whole"])
    seconds = at.hour * 3600 + at.minute * 60 + at.second
    return seconds * 1_000_000 + _fraction(found["part"]) // _NANOS


_NUMBERS = (*_INTEGERS, *_FLOATS)
_TEXTS: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    # PyIceberg sends numbers with a point as text.
    "int": Decimal,
    "long": Decimal,
    "float": Decimal,
    "double": Decimal,
    "decimal": Decimal,
    "date": lambda text: date.fromisoformat(text).toordinal() - _EPOCH_DAY,
    "time": _micros_of_day,
    "timestamp": lambda text: _nanos(text) // _NANOS,
    "timestamptz": lambda text: _nanos(text) // _NANOS,
    "timestamp_ns": _nanos,
    "timestamptz_ns": _nanos,
    "uuid": lambda text: UUID(text).bytes,
    "fixed": bytes.fromhex,
    "binary": bytes.fromhex,
}


def _fraction(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))


def decode_bound(kind: str, data: bytes | None) -> Any:
    """A bound in a manifest; None if it says nothing.

    Numbers may have the width of a narrower type that the column had once.
    """
    if data is None:
        return None
    base = base_of(kind)
    if base in _INTEGERS:
        is_promoted = base in (*MICROS, *NANOS, "time") and len(data) != 8
        packed = None if is_promoted else _PACKED.get(len(data))
        return None if packed is None else struct.unpack(packed, data)[0]
    if base in _FLOATS:
        packed = _PACKED_FLOATS.get(len(data))
        value = None if packed is None else struct.unpack(packed, data)[0]
        return None if value is None or math.isnan(value) else value
    match base:
        case "boolean":
            return data != b"\0"
        case "decimal":
            return _unscaled(kind, data)
        case "string":
            return data.decode(errors="replace") if _is_text(data) else None
        case "fixed" | "binary":
            return data
        case _:
            # Engines do not agree on the order of UUIDs; other types are not known here.
            return None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unscaled(kind: str, data: bytes) -> Decimal:
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-_scale(kind))


def decode_partition(kind: str, value: Any) -> Any:
    """A partition value as a manifest stores it."""
    if isinstance(value, bytes) and base_of(kind) == "decimal":
        return _unscaled(kind, value)
    return value


def show_value(kind: str, value: Any) -> Any:
    """A value as JSON has it."""
    if value is None:
        return None
    match base_of(kind):
        case "date":
            return _shown_day(value)
        case "time":
            return _shown_time(value)
        case "timestamp" | "timestamptz":
            return _shown_moment(kind, value * _NANOS, 6)
        case "timestamp_ns" | "timestamptz_ns":
            return _shown_moment(kind, value, 9)
        case "decimal":
            return str(value)
        case "uuid" if isinstance(value, bytes) and len(value) == 16:
            return str(UUID(bytes=value))
        case _:
            return value.hex().upper() if isinstance(value, bytes) else _finite(value)


def _finite(value: Any) -> Any:
    """JSON has no word for what is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown_day(days: int) -> Any:
    try:
        return date.fromordinal(_EPOCH_DAY + days).isoformat()
    except (ValueError, OverflowError):
        return days


def _shown_time(micros: int) -> str:
    seconds, part = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:06}"


def _shown_moment(kind: str, nanos: int, digits: int) -> Any:
    seconds, part = divmod(nanos, 1_000_000_000)
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return nanos
    zone = "+00:00" if kind in _ZONED else ""
    return f"{whole.rjust(19, '0')}.{f'{part:09}'[:digits]}{zone}"
