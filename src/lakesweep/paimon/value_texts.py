"""Values of partition keys as Java writes them into the names of folders."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

import numpy as np

from lakesweep.paimon.binary_row import Value
from lakesweep.paimon.data_types import BYTES, TIMESTAMPS, DataType, Root, Timestamp

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-3, 1e7


def legacy_text(value: Value, kind: DataType) -> str:
    """What Java's toString makes of the value as it is kept: a DATE is a number of days."""
    if isinstance(value, Timestamp):
        return _iso_text(value)
    return _plain_text(value, kind)


def cast_text(value: Value, kind: DataType, zone: tzinfo = UTC) -> str:
    """What SQL's cast to a string makes of the value; `zone` is that of local timestamps."""
    if kind.root is Root.DATE:
        assert isinstance(value, int)
        return _date_text(value)
    if kind.root is Root.TIME:
        assert isinstance(value, int)
        return _time_text(value, kind.size or 0)
    if kind.root in TIMESTAMPS:
        assert isinstance(value, Timestamp)
        return _timestamp_text(value, kind, zone)
    return _plain_text(value, kind)


def _plain_text(value: Value, kind: DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, kind)
    if isinstance(value, Decimal):
        return format(value, "f")
    if kind.root in BYTES:
        assert isinstance(value, bytes)
        return value.decode(errors="replace")
    return str(value)


def _float_text(value: float, kind: DataType) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if kind.root is Root.FLOAT else np.float64(value)
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


def wall_clock(value: Timestamp) -> datetime:
    """A timestamp as a date and time of no zone, to the microsecond."""
    return _EPOCH + timedelta(milliseconds=value.millis, microseconds=value.nanos // 1000)


def _nanos(value: Timestamp) -> int:
    return value.millis % 1000 * 1_000_000 + value.nanos


def _iso_text(value: Timestamp) -> str:
    """Java's LocalDateTime.toString: no seconds where they are zero, a fraction by threes."""
    moment, nanos = wall_clock(value), _nanos(value)
    text = f"{moment:%Y-%m-%dT%H:%M}".rjust(16, "0")
    if moment.second == 0 and nanos == 0:
        return text
    return f"{text}:{moment.second:02}" + _fraction_by_threes(nanos)


def _fraction_by_threes(nanos: int) -> str:
    digits = f"{nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _date_text(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _time_text(millis: int, precision: int) -> str:
    seconds, fraction = divmod(millis, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    if precision == 0:
        return text
    return f"{text}." + (f"{fraction:03}"[:precision].rstrip("0") or "0")


def _timestamp_text(value: Timestamp, kind: DataType, zone: tzinfo) -> str:
    moment = wall_clock(value)
    if kind.root is Root.TIMESTAMP_LTZ:
        moment = moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    precision = kind.size or 0
    digits = f"{_nanos(value):09}"
    digits = digits[:precision] + digits[precision:].rstrip("0")
    text = f"{moment:%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    return f"{text}.{digits}" if digits else text


#: How a value becomes text, by whether the table names partitions in the old way.
TEXTS_BY_LEGACY: dict[bool, Callable[[Value, DataType], str]] = {
    True: legacy_text,
    False: cast_text,
}
