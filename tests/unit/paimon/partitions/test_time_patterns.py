"""Times out of text, held against Java 17's DateTimeFormatter.

`data/java-times.tsv` has a pattern, a text, and what Java made of them as Paimon asks it: a date
and time, else a date at midnight; `unparsable` for a text, `pattern` for a pattern that it refused.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from lakesweep.paimon.partitions.time_patterns import (
    PatternError,
    UnparsableError,
    make_pattern,
    parse_usual,
)

_ANSWERS = Path(__file__).parents[3] / "data" / "java-times.tsv"
#: Years that Python has not, and the long names of months, which Java has known before version 9.
_OTHERWISE = {
    ("yyyy-MM-dd", "+12021-03-01"): "unparsable",
    ("yyyyMMdd", "+120210301"): "unparsable",
    ("y-M-d", "99999-3-1"): "unparsable",
    ("u-M-d", "-5-3-1"): "unparsable",
    ("u-M-d", "0-3-1"): "unparsable",
    ("uuuu-MM-dd", "-0001-03-01"): "unparsable",
    ("yyyy-MMMM-dd", "2021-March-01"): "2021-03-01T00:00",
}


def _answers() -> list[tuple[str, str, str]]:
    lines = _ANSWERS.read_text().splitlines()
    rows = [tuple(line.split("\t")) for line in lines]
    return [(row[0], row[1], _OTHERWISE.get((row[0], row[1]), row[2])) for row in rows]


def _parse(pattern: str, text: str) -> str:
    try:
        return make_pattern(pattern).parse(text).isoformat()
    except PatternError:
        return "pattern"
    except UnparsableError:
        return "unparsable"


@pytest.mark.parametrize(("pattern", "text", "answer"), _answers())
def test_patterns_mean_what_they_mean_in_java(pattern: str, text: str, answer: str) -> None:
    found = _parse(pattern, text)
    assert found == answer or datetime.fromisoformat(found) == datetime.fromisoformat(answer)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2021-3-1", "2021-03-01T00:00:00"),
        ("2021-13-45", "2022-02-14T00:00:00"),
        ("2021-02-30", "2021-03-02T00:00:00"),
        ("2021-3-1 25:61:61", "2021-03-02T02:02:01"),
        ("2021-3-1 5:6:7.123", "2021-03-01T05:06:07.123000"),
        ("2021-00-00", "2020-11-30T00:00:00"),
        ("2021-03--1", "2021-02-27T00:00:00"),
        ("2021-3-1 -1:00:00", "2021-02-28T23:00:00"),
        ("2021-3-1 24:00:00", "2021-03-02T00:00:00"),
    ],
)
def test_without_a_pattern_days_and_hours_may_run_over_as_in_java(text: str, time: str) -> None:
    assert parse_usual(text) == datetime.fromisoformat(time)


@pytest.mark.parametrize(
    "text",
    ["2021-3-1 5:6", "20210301", "+2021-3-1", "2021-3-1 5:6:7.", "", "9999-12-99", "31-12-26"],
)
def test_other_texts_say_no_time(text: str) -> None:
    with pytest.raises(UnparsableError):
        parse_usual(text)


def test_a_letter_that_is_not_supported_is_named() -> None:
    with pytest.raises(PatternError, match="'YYYY' in the pattern 'YYYY-ww' is not supported"):
        make_pattern("YYYY-ww")
