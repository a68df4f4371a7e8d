"""Partitions: their bytes in manifests, the names of their folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.paimon.binary_row import Value, decode_row
from lakesweep.paimon.data_types import DataType, parse_type
from lakesweep.paimon.options import Options
from lakesweep.paimon.schemas import Field
from lakesweep.paimon.value_texts import TEXTS_BY_LEGACY

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


def make_partitioning(fields: Sequence[Field], options: Options) -> Partitioning:
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
