"""Pinned lists: addresses and folders that the user wants kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.errors import DamagedError
from lakesweep.storage.address import parse

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores


def read_pins(stores: Stores, path: str) -> list[str]:
    """The addresses in a text file, one per line, or in the column `path` of a Parquet file.

    An address keeps the file of that name and everything below it. Empty lines, and lines that
    begin with `#`, are skipped. DamagedError for a line that looks like a pattern or has a comment
    at its end: as an address it would keep nothing.
    """
    address = parse(path)
    data = stores.open(address).read(address.key)
    lines = _parquet_paths(path, data) if data.startswith(b"PAR1") else _text_lines(path, data)
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


def _parquet_paths(path: str, data: bytes) -> list[str]:
    try:
        paths = pq.read_table(pa.BufferReader(data), columns=["path"])["path"]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DamagedError(path, f"has no readable column path: {error}") from error
    return [str(one) for one in paths.to_pylist()]
