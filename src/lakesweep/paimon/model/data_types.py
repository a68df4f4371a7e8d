"""Column data types, as far as partition keys can have them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from lakesweep.errors import UsageError

_SHAPE = re.compile(
    r"([A-Z_]+) *(?:\( *(\d+) *(?:, *(\d+) *)?\))?( WITH LOCAL TIME ZONE)?( WITHOUT TIME ZONE)?"
    r"(?: NOT NULL| NULL)?"
)
#: A decimal of more digits, or a timestamp of more, has no room in the eight bytes of a field.
_COMPACT_DIGITS = 18
_COMPACT_FRACTION = 3


class DataTypeRoot(StrEnum):
    """The families of types."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"


TEXTS = frozenset({DataTypeRoot.CHAR, DataTypeRoot.VARCHAR})
BYTES = frozenset({DataTypeRoot.BINARY, DataTypeRoot.VARBINARY})
TIMESTAMPS = frozenset({DataTypeRoot.TIMESTAMP, DataTypeRoot.TIMESTAMP_LTZ})

_ALIASES = {
    "STRING": DataTypeRoot.VARCHAR,
    "BYTES": DataTypeRoot.VARBINARY,
    "INTEGER": DataTypeRoot.INT,
    "NUMERIC": DataTypeRoot.DECIMAL,
    "DEC": DataTypeRoot.DECIMAL,
}
_ROOTS = {str(root): root for root in DataTypeRoot} | _ALIASES
#: What stands for a size that is not written.
_USUAL_SIZES = {
    DataTypeRoot.DECIMAL: 10,
    DataTypeRoot.TIMESTAMP: 6,
    DataTypeRoot.TIMESTAMP_LTZ: 6,
    DataTypeRoot.TIME: 0,
}


class Timestamp(NamedTuple):
    """A moment as Paimon keeps it: milliseconds since 1970, and nanoseconds within the last."""

    millis: int
    nanos: int = 0


@dataclass(frozen=True, slots=True)
class DataType:
    """A type: `size` is the length of a text, the digits of a number or of a fraction."""

    root: DataTypeRoot
    size: int | None = None
    scale: int = 0

    @property
    def is_compact(self) -> bool:
        """Whether a value fits into the eight bytes that each field of a row has."""
        size = self.size or 0
        if self.root is DataTypeRoot.DECIMAL:
            return size <= _COMPACT_DIGITS
        return self.root not in TIMESTAMPS or size <= _COMPACT_FRACTION

    def __str__(self) -> str:
        sizes = [] if self.size is None else [str(self.size)]
        if self.root is DataTypeRoot.DECIMAL:
            sizes.append(str(self.scale))
        return f"{self.root}({', '.join(sizes)})" if sizes else str(self.root)


def parse_type(text: str) -> DataType:
    """The type that a schema writes so; UsageError where no partition key can have it."""
    match = _SHAPE.fullmatch(text.strip().upper())
    root = None if match is None else _find_root(match[1], is_local=match[4] is not None)
    if match is None or root is None:
        raise UsageError(f"no partition key can have the type {text!r}", hint="check the schema")
    size = _USUAL_SIZES.get(root) if match[2] is None else int(match[2])
    return DataType(root, size, int(match[3] or 0))


def _find_root(word: str, *, is_local: bool) -> DataTypeRoot | None:
    if word == DataTypeRoot.TIMESTAMP and is_local:
        return DataTypeRoot.TIMESTAMP_LTZ
    return _ROOTS.get(word)
