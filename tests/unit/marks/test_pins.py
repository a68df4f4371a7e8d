"""Lists of what is to be kept: a line that would keep nothing is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import DamagedError
from lakesweep.marks.pins import read_pins
from lakesweep.storage.stores import Stores

FILE = "memory://pins/list.txt"


def pins(text: str) -> list[str]:
    stores = Stores()
    stores.open("memory://pins/").write("list.txt", text.encode())
    return read_pins(stores, FILE)


def test_addresses_stand_one_a_line() -> None:
    assert pins("# kept *\n\n s3://lake/a \ns3://lake/b#1\n") == ["s3://lake/a", "s3://lake/b#1"]


def test_a_mark_of_the_encoding_is_no_part_of_an_address() -> None:
    assert pins("\ufeffs3://lake/a\n") == ["s3://lake/a"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s3://lake/a/*", "is a pattern, but pins must be addresses"),
        ("s3://lake/**", "is a pattern, but pins must be addresses"),
        ("s3://lake/a  # for ever", "has a comment at its end"),
        ("s3://lake/a\t# for ever", "has a comment at its end"),
    ],
)
def test_lines_that_would_keep_nothing_are_refused(line: str, message: str) -> None:
    with pytest.raises(DamagedError, match=message):
        pins(f"s3://lake/x\n{line}\n")


def test_a_column_of_paths_may_be_pinned() -> None:
    assert parquet_pins(["s3://lake/a", "s3://lake/b"]) == ["s3://lake/a", "s3://lake/b"]


@pytest.mark.parametrize("path", [None, "", "s3://lake/\0"])
def test_a_row_that_would_keep_nothing_is_refused(path: str | None) -> None:
    with pytest.raises(DamagedError, match=r"list\.txt"):
        parquet_pins(["s3://lake/a", path])


def test_a_nul_character_in_a_line_is_refused() -> None:
    with pytest.raises(DamagedError, match="NUL"):
        pins("s3://lake/\0\n")


def parquet_pins(paths: list[str | None]) -> list[str]:
    out, stores = pa.BufferOutputStream(), Stores()
    pq.write_table(pa.table({"path": pa.array(paths, pa.string())}), out)
    stores.open("memory://pins/").write("list.txt", out.getvalue().to_pybytes())
    return read_pins(stores, FILE)
