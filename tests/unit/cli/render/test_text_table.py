from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.cli.render.text_table import TextTable, fold
from tests.random_tests import examples

_NAME = "production.customer_relationship_management.orders_and_returns"
_ADDRESS = f"s3://bucket-of-the-department/{_NAME}/data/region=eu/00000-7-539227cc.parquet"

_words = st.text(st.sampled_from("ab-./"), min_size=1, max_size=50)
_cells = st.lists(_words, max_size=8).map(" ".join)


def _shown(table: TextTable, width: int = 80) -> list[str]:
    return list(table.lines(width))


def test_a_table_that_fits_is_a_grid() -> None:
    table = TextTable(("kind", "files"), [("data", "1,000")], numbers=frozenset({"files"}))
    assert _shown(table) == [" kind   files", " ────────────", " data   1,000"]


def test_sentences_wrap_and_names_stay() -> None:
    shown = _shown(TextTable(("guard", "fails because"), [("first-run", "no plan of it " * 9)]))
    assert len(shown) == 4
    assert shown[3].startswith(" " * 12 + " ")


def test_a_name_that_is_too_long_stands_on_its_own_line_with_its_figures_below() -> None:
    rows = [("shop.orders", "3", "18 kB", "31"), (_NAME, "12,345", "18 kB", "1,031")]
    titles = ("table", "to delete", "bytes to delete", "to keep")
    assert _shown(TextTable(titles, rows, numbers=frozenset(titles[1:])))[2:] == [
        " shop.orders           3             18 kB        31",
        f" {_NAME}",
        "                  12,345             18 kB     1,031",
    ]


def test_cells_outside_of_the_grid_say_what_they_are() -> None:
    rows = [(f"{_NAME}/", f"{_NAME}_1, {_NAME}_2", "")]
    shown = _shown(TextTable(("folder", "used by", "lies in"), rows))
    assert shown[2:] == [f" {_NAME}/", f"    used by: {_NAME}_1,", f"    {_NAME}_2"]


def test_only_an_address_longer_than_a_line_is_shortened() -> None:
    shown = _shown(TextTable(("missing file", "kind"), [(_ADDRESS, "data")]))
    assert shown[2].startswith(" s3://bucket-of-the-depart")
    assert shown[2].endswith("00000-7-539227cc.parquet")
    assert (len(shown[2]), shown[2].count("…")) == (80, 1)
    assert _shown(TextTable(("why",), [(f"see {_ADDRESS}",)]))[2:] == [" see", f" {_ADDRESS}"]


@pytest.mark.parametrize("colour", [False, True])
def test_what_goes_has_a_colour_unless_it_is_nothing(colour: bool) -> None:
    table = TextTable(("outcome", "files"), [("deleted", "3"), ("failed", "0")])
    shown = list(table.lines(colour=colour))
    assert ("\x1b[31mdeleted\x1b[0m" in shown[2]) is colour
    assert "\x1b" not in shown[3]


@examples(200)
@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.tuples(*[_cells] * n), min_size=1)))
def test_no_table_is_too_wide_and_no_word_is_split(rows: list[tuple[str, ...]]) -> None:
    columns = ("table", "state", "files", "why", "kept by")[: len(rows[0])]
    shown = _shown(TextTable(columns, rows, numbers=frozenset({"files"})))
    assert [line for line in shown if len(line) > 80 and " " in line.strip()] == []
    words = {word for line in shown for word in line.split()}
    assert {word for row in rows for cell in row for word in cell.split()} <= words


def test_a_line_is_broken_between_its_fields_first() -> None:
    line = f"plan-20261118T052745-837d0261  done  2026-11-18T05:27:45Z  {_NAME}  3 files, 76 kB"
    assert fold(line, 80) == [
        "plan-20261118T052745-837d0261  done  2026-11-18T05:27:45Z",
        f"    {_NAME}",
        "    3 files, 76 kB",
    ]
    assert fold(line, None) == [line]


def test_a_sentence_is_broken_between_words() -> None:
    first, *rest = fold("a word " * 20, 80)
    assert first.startswith("a word")
    assert all(each.startswith("    ") for each in rest)
    assert " ".join([first, *rest]).split() == ["a", "word"] * 20
