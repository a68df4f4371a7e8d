"""Pinned lists: addresses and folders that the user wants kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.avro.projection import ProjectedColumn
from lakesweep.errors import DamagedError
from lakesweep.marks.columnar import read_parquet
from lakesweep.storage.address import parse
from lakesweep.untrusted.columns import check_paths
from lakesweep.untrusted.limits import ReadLimits, reading

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores

_COLUMNS = (ProjectedColumn("path", names=("path",), type=pa.string(), required=True),)


def read_pins(stores: Stores, path: str) -> list[str]:
    """The addresses in a text file, one per line, or in the column `path` of a Parquet file.

    An address keeps the file of that name and everything below it. Empty lines, and lines that
    begin with `#`, are skipped. DamagedError for a line that looks like a pattern or has a comment
    at its end: as an address it would keep nothing.
    """
    address = parse(path)
    with reading(path):
        data = stores.open(address).read(address.key)
        if data.startswith(b"PAR1"):
            lines = _parquet_paths(path, data, stores.limits)
        else:
            lines = _text_lines(path, data)
    return [line for line in lines if line and not line.startswith("#")]


def _text_lines(path: str, data: bytes) -> list[str]:
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise DamagedError(path, f"is not UTF-8: {error}") from error
    for line in lines:
        _check(path, line)
    return lines


def _check(path: str, line: str) -> None:
    if line.startswith("#"):
        return
    if "\0" in line:
        raise DamagedError(path, "an address has a NUL character")
    if "*" in line:
        raise DamagedError(
            path,
            f"{line} is a pattern, but pins must be addresses",
            hint="name the folder, which keeps everything below it, or use the lake's exclude",
        )
    if " #" in line or "\t#" in line:
        raise DamagedError(
            path, f"{line} has a comment at its end", hint="put comments on lines of their own"
        )


def _parquet_paths(path: str, data: bytes, limits: ReadLimits) -> list[str]:
    paths: list[str] = []
    for batch in read_parquet(path, data, _COLUMNS, limits):
        check_paths(path, batch["path"])
        paths += batch["path"].to_pylist()
    return paths
