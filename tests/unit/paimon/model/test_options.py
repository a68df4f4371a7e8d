"""Options of tables as typed values."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.errors import ConfigError
from lakesweep.paimon.model.options import Options

NAME = "some.option"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 h", timedelta(hours=1)),
        ("2d", timedelta(days=2)),
        ("30 min", timedelta(minutes=30)),
        ("3 Minutes", timedelta(minutes=3)),
        ("10s", timedelta(seconds=10)),
        ("250", timedelta(milliseconds=250)),
        ("250 ms", timedelta(milliseconds=250)),
        ("7 µs", timedelta(microseconds=7)),
        ("1500 ns", timedelta(microseconds=2)),
        (" 1 day ", timedelta(days=1)),
        ("9223372036854775807 d", timedelta.max),
    ],
)
def test_durations_are_those_of_java(text: str, expected: timedelta) -> None:
    assert Options({NAME: text}).duration(NAME) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8 mb", 8 << 20), ("1 B", 1), ("2kb", 2048), ("3G", 3 << 30), ("1 t", 1 << 40), ("77", 77)],
)
def test_sizes_are_powers_of_two(text: str, expected: int) -> None:
    assert Options({NAME: text}).size_bytes(NAME, 0) == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("FALSE", False)])
def test_flags_are_read(text: str, expected: bool) -> None:
    assert Options({NAME: text}).flag(NAME, not expected) is expected


def test_what_is_not_set_has_its_default() -> None:
    options = Options()
    found = (
        options.text(NAME),
        options.flag(NAME, True),
        options.integer(NAME, 3),
        options.duration(NAME, timedelta(1)),
        options.size_bytes(NAME, 5),
    )
    assert found == (None, True, 3, timedelta(1), 5)


@pytest.mark.parametrize("text", ["", "h", "-1 h", "1 fortnight", "1.5 h", "one"])
def test_wrong_durations_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.option"):
        Options({NAME: text}).duration(NAME)


@pytest.mark.parametrize("text", ["", "1 parsec", "-1"])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.option"):
        Options({NAME: text}).size_bytes(NAME, 0)


def test_wrong_numbers_and_flags_are_refused() -> None:
    with pytest.raises(ConfigError):
        Options({NAME: "many"}).integer(NAME, 0)
    with pytest.raises(ConfigError):
        Options({NAME: "maybe"}).flag(NAME, False)


def test_options_that_nobody_asks_for_may_be_anything() -> None:
    assert Options({NAME: "1 fortnight", "bucket": "2"}).integer("bucket", 1) == 2
