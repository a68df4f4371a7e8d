"""What a table file says of itself, apart from its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.errors import DamagedError, FormatError
from lakesweep.lakefs.blocks import uvarint

_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_SINGLE, _TWO_LEVEL = 0, 2


class TableType(StrEnum):
    """Whether the records of a file are objects, or ranges of them."""

    RANGES = "ranges"
    METARANGES = "metaranges"


#: What is hashed into an id: what was known of a table before its first record.
_HASHED = ("type", "entity", "schema_name", "schema_definition")


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties that are of use. Those with `min_key` and `max_key` are not: they were wrong.

    `named` are those that an id covers.
    """

    type: TableType
    entity: str
    named: Mapping[str, bytes]
    two_level: bool
    records: int
    data_blocks: int
    key_bytes: int
    value_bytes: int


def read_properties(path: str, found: Mapping[bytes, bytes]) -> Properties:
    """Make sense of the records of the properties' block."""
    try:
        index_type = int.from_bytes(found[_INDEX_TYPE], "little")
        named = {name: found[name.encode()] for name in _HASHED if name.encode() in found}
        properties = Properties(
            type=TableType(named["type"].decode()),
            entity=named.get("entity", b"").decode(),
            named=named,
            two_level=index_type == _TWO_LEVEL,
            records=_number(found, "num.entries"),
            data_blocks=_number(found, "num.data.blocks"),
            key_bytes=_number(found, "raw.key.size"),
            value_bytes=_number(found, "raw.value.size"),
        )
        count = int(found[b"count"])
    except (KeyError, ValueError, IndexError) as error:
        raise DamagedError(path, f"its properties cannot be read: {error!r}") from None
    if index_type not in {_SINGLE, _TWO_LEVEL}:
        raise FormatError(path, f"its index is of type {index_type}, which lakeFS does not write")
    if count != properties.records:
        raise DamagedError(path, f"it says to have {count} and {properties.records} records")
    return properties


def _number(found: Mapping[bytes, bytes], name: str) -> int:
    return uvarint(found[f"rocksdb.{name}".encode()], 0)[0]
