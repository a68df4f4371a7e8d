from __future__ import annotations

from lakesweep.cli.render.outcome_tables import failure_lines, kind_lines, outcome_table
from lakesweep.storage.deleting.outcome_totals import FailedFile


def test_counts_are_grouped_and_texts_shown_unchanged() -> None:
    table = outcome_table({"deleted": 1234, "freed": "1.2 MB"})
    assert table.columns == ("outcome", "files")
    assert table.rows == [("deleted", "1,234"), ("freed", "1.2 MB")]


def test_the_first_failures_are_named_and_the_others_counted() -> None:
    failures = [FailedFile(f"f{number}", f"odd {number}") for number in range(25)]
    lines = list(failure_lines(failures, omitted=1_000))
    assert lines[0] == "f0: odd 0"
    assert lines[20:] == ["and 1,005 more failures"]


def test_equal_failures_are_one_line_with_their_number() -> None:
    failures = [FailedFile(f"f{number}", f"failed: f{number}: denied") for number in range(20)]
    lines = list(failure_lines([*failures, FailedFile("x", "locked")], omitted=1))
    assert lines == ["f0 and 19 other files: failed: denied", "x: locked", "and 1 more failure"]


def test_few_failures_are_all_named() -> None:
    assert list(failure_lines([FailedFile("f", "denied")])) == ["f: denied"]


def test_kinds_are_followed_by_their_totals() -> None:
    lines = list(kind_lines({"data": 2, "index": 0, "manifest": 1}, {"data": 2_000}))
    assert [line.split() for line in lines] == [
        ["2", "data", "2.0", "kB"],
        ["1", "manifest", "-"],
        ["3", "in", "all", "2.0", "kB"],
    ]
