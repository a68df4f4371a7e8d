"""Values of partition keys out of text, as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from lakesweep.errors import UsageError
from lakesweep.paimon.binary_row import Value
from lakesweep.paimon.data_types import BYTES, TEXTS, TIMESTAMPS, DataType, Root, Timestamp

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_DATE = r"(\d{1,4})-(\d{1,2})-(\d{1,2})"
_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
_TIMESTAMP = re.compile(rf"{_DATE}(?:[ T]{_CLOCK})?", re.ASCII)
_TIME = re.compile(_CLOCK, re.ASCII)
_TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def parse_value(text: str, kind: DataType) -> Value:
    """The value of a type that a text stands for; UsageError where it stands for none."""
    try:
        return _parser(kind)(text, kind)
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        raise UsageError(
            f"{text!r} is no value of the type {kind}", hint=f"write it as {_example(kind)}"
        ) from None


def _parser(kind: DataType) -> Callable[[str, DataType], Value]:
    return _PARSERS.get(kind.root, _text)


def _text(text: str, _kind: DataType) -> str:
    return text


def _bytes(text: str, _kind: DataType) -> bytes:
    return text.encode()


def _boolean(text: str, _kind: DataType) -> bool:
    return _TRUTHS[text.strip().lower()]


def _integer(text: str, kind: DataType) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    value, bits = int(text), _BITS[kind.root]
    if value >> (bits - 1) not in (0, -1):
        raise OverflowError(text)
    return value


def _float(text: str, kind: DataType) -> float:
    import numpy as np

    value = float(_without_underscores(text))
    return float(np.float32(value)) if kind.root is Root.FLOAT else value


def _without_underscores(text: str) -> str:
    """Python reads 1_0 as ten, and nobody else does."""
    if "_" in text:
        raise ValueError(text)
    return text


def _decimal(text: str, kind: DataType) -> Decimal:
    step = Decimal((0, (1,), -kind.scale))
    value = Decimal(_without_underscores(text)).quantize(step)
    if value != Decimal(text):  # what is near it is another partition
        raise ValueError(text)
    if len(value.as_tuple().digits) > (kind.size or 0):
        raise OverflowError(text)
    return value


def _date(text: str, _kind: DataType) -> int:
    days, rest = divmod(_moment(text) - _EPOCH, timedelta(days=1))
    if rest:
        raise ValueError(text)
    return days


def _time(text: str, _kind: DataType) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    time(hour, minute, second)  # refuses what is none
    millis, rest = divmod(_nanos(found[4]), 1_000_000)
    if rest:  # what is near it is another partition
        raise ValueError(text)
    return ((hour * 60 + minute) * 60 + second) * 1000 + millis


def _timestamp(text: str, kind: DataType) -> Timestamp:
    found = _TIMESTAMP.fullmatch(text)
    nanos = _nanos(found[7] if found else None)
    if nanos % int(10 ** (9 - (kind.size or 0))):
        raise ValueError(text)
    millis = (_moment(text) - _EPOCH) // timedelta(milliseconds=1)
    return Timestamp(millis + nanos // 1_000_000, nanos % 1_000_000)


def _moment(text: str) -> datetime:
    """The date and time to the second."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return datetime(*(int(part or 0) for part in found.groups()[:6]))  # type: ignore[arg-type]  # noqa: DTZ001


def _nanos(fraction: str | None) -> int:
    return int((fraction or "").ljust(9, "0"))


_PARSERS: dict[Root, Callable[[str, DataType], Value]] = {
    Root.BOOLEAN: _boolean,
    Root.FLOAT: _float,
    Root.DOUBLE: _float,
    Root.DECIMAL: _decimal,
    Root.DATE: _date,
    Root.TIME: _time,
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(BYTES, _bytes),
    **dict.fromkeys(TIMESTAMPS, _timestamp),
}
_EXAMPLES = {
    Root.BOOLEAN: "true or false",
    Root.DATE: "2026-01-31",
    Root.TIME: "23:59:59",
    **dict.fromkeys(TIMESTAMPS, "2026-01-31 23:59:59"),
}


def _example(kind: DataType) -> str:
    return _EXAMPLES.get(kind.root, "a number that fits")
