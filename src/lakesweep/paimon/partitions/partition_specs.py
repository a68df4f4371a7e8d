"""Partition specs: the partitions that `k=v,k=v` selects."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from lakesweep.errors import UsageError
from lakesweep.paimon.model.binary_row import Value
from lakesweep.paimon.model.data_types import (
    BYTES,
    TEXTS,
    TIMESTAMPS,
    DataType,
    DataTypeRoot,
    Timestamp,
)
from lakesweep.paimon.model.partitioning import Partitioning, escape
from lakesweep.paimon.partitions.snapshot_partitions import Partition

#: Values of some or all keys: as text, as typed values, or None for null.
Spec = Mapping[str, Value]

_LATER_KEY = re.compile(r",\s*(\w+)=")


def parse_spec(text: str, partitioning: Partitioning) -> dict[str, str]:
    """Parse a spec: `k=v` for some keys, separated by commas or by slashes as in a folder.

    A value may contain commas, slashes and equal signs: only the name of a key ends it.
    """
    names = sorted(partitioning.names, key=len, reverse=True)
    starts = list(re.finditer(rf"(?:^|[,/])({'|'.join(map(re.escape, names))})=", text))
    if not names or not starts or starts[0].start() != 0:
        raise _unknown_key(text.partition("=")[0], partitioning)
    ends = [*(found.start() for found in starts[1:]), len(text)]
    pairs = [(found[1], text[found.end() : end]) for found, end in zip(starts, ends, strict=True)]
    if len(dict(pairs)) < len(pairs):
        raise UsageError(f"{text!r} names a key twice", hint="name each key once")
    return dict(pairs)


def matching_partitions(
    spec: Spec, partitioning: Partitioning, partitions: Collection[Partition]
) -> list[Partition]:
    """The partitions that a spec selects.

    A text is a plain value or, if no partition has that, a value as its folder spells it. The
    table's default partition name stands for null.
    """
    found = list(partitions)
    for name, wanted in spec.items():
        if name not in partitioning.names:
            raise _unknown_key(name, partitioning)
        at = partitioning.names.index(name)
        values = _meant(wanted, at, partitioning, {each.values[at] for each in partitions})
        # 0.0 equals -0.0, and yet they are different partitions.
        texts = {partitioning.text(value, at) for value in values}
        found = [
            each
            for each in found
            if each.values[at] in values and partitioning.text(each.values[at], at) in texts
        ]
    return found


def partitions_of_specs(
    specs: Iterable[Spec], partitioning: Partitioning, partitions: Collection[Partition]
) -> list[Partition]:
    """The partitions that any of the specs selects, each once, in the order of their folders."""
    found = {
        partition.data: partition
        for spec in specs
        for partition in matching_partitions(spec, partitioning, partitions)
    }
    return sorted(found.values(), key=lambda partition: partition.path)


def _meant(
    wanted: Value, at: int, partitioning: Partitioning, there: Collection[Value]
) -> Sequence[Value]:
    """The values of a key that a text or a value selects; none if no partition has them."""
    if not isinstance(wanted, str):
        return [wanted]
    if wanted == partitioning.default_name:
        return [None]
    kind = partitioning.keys[at].type
    named = [
        value
        for value in there
        if value is not None and escape(partitioning.text(value, at)) == wanted
    ]
    try:
        value = parse_value(wanted, kind)
    except UsageError:
        if not named:
            raise
        return named
    if value in there or named:
        return [value] if value in there else named
    return _nothing(wanted, partitioning)


def _nothing(wanted: str, partitioning: Partitioning) -> Sequence[Value]:
    """No partition has the value, perhaps because it contains a key that does not exist."""
    found = _LATER_KEY.search(wanted)
    if found is not None:
        raise _unknown_key(found[1], partitioning)
    return ()


def _unknown_key(name: str, partitioning: Partitioning) -> UsageError:
    if not partitioning.keys:
        return UsageError("the table is not partitioned", hint="it has no partitions to name")
    hint = f"write key=value; its keys are {', '.join(partitioning.names)}"
    if name in partitioning.names:
        return UsageError(f"{name!r} names a key without a value", hint=hint)
    return UsageError(f"the table has no partition key {name!r}", hint=hint)


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone
_BITS = {
    DataTypeRoot.TINYINT: 8,
    DataTypeRoot.SMALLINT: 16,
    DataTypeRoot.INT: 32,
    DataTypeRoot.BIGINT: 64,
}
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
    """The value of a type that a text stands for; UsageError if there is none."""
    try:
        return _parser(kind)(text, kind)
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        raise UsageError(
            f"{text!r} is not a value of type {kind}", hint=f"write it as {_example(kind)}"
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
    return float(np.float32(value)) if kind.root is DataTypeRoot.FLOAT else value


def _without_underscores(text: str) -> str:
    """Python alone reads 1_0 as ten."""
    if "_" in text:
        raise ValueError(text)
    return text


def _decimal(text: str, kind: DataType) -> Decimal:
    step = Decimal((0, (1,), -kind.scale))
    value = Decimal(_without_underscores(text)).quantize(step)
    if value != Decimal(text):  # a rounded value is another partition
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
    time(hour, minute, second)  # raises if it is invalid
    millis, rest = divmod(_nanos(found[4]), 1_000_000)
    if rest:  # a rounded value is another partition
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


_PARSERS: dict[DataTypeRoot, Callable[[str, DataType], Value]] = {
    DataTypeRoot.BOOLEAN: _boolean,
    DataTypeRoot.FLOAT: _float,
    DataTypeRoot.DOUBLE: _float,
    DataTypeRoot.DECIMAL: _decimal,
    DataTypeRoot.DATE: _date,
    DataTypeRoot.TIME: _time,
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(BYTES, _bytes),
    **dict.fromkeys(TIMESTAMPS, _timestamp),
}
_EXAMPLES = {
    DataTypeRoot.BOOLEAN: "true or false",
    DataTypeRoot.DATE: "2026-01-31",
    DataTypeRoot.TIME: "23:59:59",
    **dict.fromkeys(TIMESTAMPS, "2026-01-31 23:59:59"),
}


def _example(kind: DataType) -> str:
    return _EXAMPLES.get(kind.root, "a number that fits")
