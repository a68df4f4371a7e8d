"""Rows of files in whichever format their tables keep manifests: Avro, ORC or Parquet.

A reader expects all manifests of a table in one format, so what is written is in that of what was
read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakesweep.errors import UnsupportedError
from lakesweep.paimon.avro_rows import read_avro_format, read_avro_rows
from lakesweep.paimon.columnar_rows import (
    read_orc_format,
    read_orc_rows,
    read_parquet_format,
    read_parquet_rows,
)
from lakesweep.paimon.rows import Row, RowFormat


class _Reader(NamedTuple):
    rows: Callable[[str, bytes], list[Row]]
    format: Callable[[str, bytes], RowFormat]


#: By how files begin.
_READERS = {
    b"Obj\x01": _Reader(read_avro_rows, read_avro_format),
    b"ORC": _Reader(read_orc_rows, read_orc_format),
    b"PAR1": _Reader(read_parquet_rows, read_parquet_format),
}


def read_rows(path: str, data: bytes) -> list[Row]:
    """All rows of a file, each with all its fields."""
    return _reader(path, data).rows(path, data)


def read_format(path: str, data: bytes) -> RowFormat:
    """How a file was written; UnsupportedError where that is not known."""
    return _reader(path, data).format(path, data)


def widest(table: str, formats: Sequence[RowFormat]) -> RowFormat:
    """The format of the last, which is the newest, with what only the others have behind it."""
    check_alike(table, formats)
    found = formats[-1]
    for other in formats[:-1]:
        found = found.widened(other)
    return found


def check_alike(table: str, formats: Sequence[RowFormat]) -> None:
    """UnsupportedError where some of these are of another kind: no reader knows two at once."""
    if len({type(each) for each in formats}) > 1:
        raise UnsupportedError(
            table,
            "its manifests are in more than one format",
            hint="let the engine that writes this table rewrite them in one",
        )


def _reader(path: str, data: bytes) -> _Reader:
    for magic, reader in _READERS.items():
        if data.startswith(magic):
            return reader
    raise UnsupportedError(path, "is neither Avro nor ORC nor Parquet")
