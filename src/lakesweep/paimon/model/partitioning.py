"""Partition keys of a table: values in manifests, and the folder names made from them.

Values are formatted exactly as Java formats them, because the result is a path.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lakesweep.paimon.model.binary_row import Value, decode_row
from lakesweep.paimon.model.data_types import (
    BYTES,
    TIMESTAMPS,
    DataType,
    DataTypeRoot,
    Timestamp,
    parse_type,
)
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.schemas import PaimonField

#: What Java escapes in a name of a folder.
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{}\\[\\]^]")
#: What Java calls white space: it knows no-break spaces, and does not count them.
_BLANK = re.compile("[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*")


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A column that a table is partitioned by."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a table is partitioned, and how it names the folders.

    `default_name` stands for a value that is null or blank; `legacy` writes values as Paimon keeps
    them, else as SQL casts them to text.
    """

    keys: tuple[PartitionKey, ...]
    default_name: str
    legacy: bool

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(key.type for key in self.keys)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    def decode(self, data: bytes) -> tuple[Value, ...]:
        """The values of a partition, from its bytes."""
        return decode_row(data, self.types)

    def text(self, value: Value, at: int) -> str:
        """A value as the name of a folder holds it, before it is escaped."""
        kind = self.keys[at].type
        text = "" if value is None else TEXTS_BY_LEGACY[self.legacy](value, kind)
        return self.default_name if _BLANK.fullmatch(text) else text

    def path(self, values: Sequence[Value]) -> str:
        """The folder of a partition below the table: `k=v/k=v`, empty without keys."""
        return "/".join(
            f"{escape(key.name)}={escape(self.text(value, at))}"
            for at, (key, value) in enumerate(zip(self.keys, values, strict=True))
        )


def make_partitioning(fields: Sequence[PaimonField], options: Options) -> Partitioning:
    """How a table of these options is partitioned by these columns."""
    return Partitioning(
        keys=tuple(PartitionKey(field.name, parse_type(field.type)) for field in fields),
        default_name=options.text("partition.default-name") or "__DEFAULT_PARTITION__",
        legacy=options.flag("partition.legacy-name", True),
    )


def partition_texts(partitions: pa.Array, partitioning: Partitioning) -> list[str]:
    """The folders of partitions, from their bytes; each distinct one is decoded once."""
    encoded = partitions.dictionary_encode()
    texts = [partitioning.path(partitioning.decode(row)) for row in encoded.dictionary.to_pylist()]
    return [texts[at] for at in encoded.indices.to_pylist()]


def escape(text: str) -> str:
    """A key or a value as the name of a folder holds it."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-3, 1e7


def legacy_text(value: Value, kind: DataType) -> str:
    """What Java's toString makes of the value as it is kept: a DATE is a number of days."""
    if isinstance(value, Timestamp):
        return _iso_text(value)
    return _plain_text(value, kind)


def cast_text(value: Value, kind: DataType, zone: tzinfo = UTC) -> str:
    """What SQL's cast to a string makes of the value; `zone` is that of local timestamps."""
    if kind.root is DataTypeRoot.DATE:
        assert isinstance(value, int)
        return _date_text(value)
    if kind.root is DataTypeRoot.TIME:
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
    number = np.float32(value) if kind.root is DataTypeRoot.FLOAT else np.float64(value)
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
    if kind.root is DataTypeRoot.TIMESTAMP_LTZ:
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
