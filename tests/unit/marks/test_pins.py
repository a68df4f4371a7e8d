"""Lists of what is to be kept: a line that would keep nothing is refused."""

from __future__ import annotations

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
