from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.errors import UsageError
from lakesweep.units import (
    absolute_address,
    format_count,
    format_duration,
    format_moment,
    format_size,
    parse_duration,
    parse_moment,
    parse_size,
)

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("90s", 90), ("15m", 900), ("6h", 21600), ("7d", 604800)]
)
def test_durations_have_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "-1d", "1.5h", "7D", "1d2h", "99999999999d"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="is"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "90s", "15m", "6h", "7d"])
def test_durations_are_written_as_they_were_read(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


def test_a_duration_is_a_point_in_the_past() -> None:
    assert parse_moment("2d", _NOW) == _NOW - timedelta(days=2)


@pytest.mark.parametrize("text", ["2026-02-01T01:00:00+01:00", "2026-02-01T00:00:00Z"])
def test_a_time_with_a_zone_becomes_utc(text: str) -> None:
    moment = parse_moment(text, _NOW)
    assert (moment, moment.tzinfo) == (datetime(2026, 2, 1, tzinfo=UTC), UTC)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-02-01T00:00:00", "no time zone"),
        ("2026-02-01", "no time zone"),
        ("2026-03-01T12:00:01Z", "in the future"),
        ("yesterday", "not a point in time"),
        ("999999d", "longer than 1,000 years"),
    ],
)
def test_a_doubtful_point_in_time_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_moment(text, _NOW)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("1234", 1234),
        ("5B", 5),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1.5 MB", 1_500_000),
        ("64MiB", 64 * 2**20),
        ("2GiB", 2**31),
        ("3TB", 3 * 10**12),
    ],
)
def test_sizes_are_bytes_or_have_a_unit(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MB", "-1", "10M", "1,5MB", "ten"])
def test_a_doubtful_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_940, "9.9 kB"),
        (9_960, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (10**18, "1.0 EB"),
        (5 * 10**22, "50000 EB"),
    ],
)
def test_sizes_for_people_have_two_or_three_digits(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def test_times_show_a_fraction_only_where_there_is_one() -> None:
    whole = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert format_moment(whole) == "2026-01-02T03:04:05Z"
    assert format_moment(whole.replace(microsecond=500_000)) == "2026-01-02T03:04:05.500000Z"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files")]
)
def test_counts_take_the_plural_but_for_one(count: int, text: str) -> None:
    assert format_count(count, "file") == text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lake", "{here}/lake"),
        ("lake/", "{here}/lake/"),
        ("./lake", "{here}/lake"),
        (".", "{here}"),
        ("..", "{above}"),
        ("../", "{above}/"),
        ("../lake/t", "{above}/lake/t"),
        ("a/../b/", "{here}/b/"),
        ("{here}/../x", "{above}/x"),
        ("{here}/./x", "{here}/x"),
        ("/a//b", "/a//b"),
        ("./odd:name", "{here}/odd:name"),
        ("s3://lake/../x", "s3://lake/../x"),
        ("", ""),
    ],
)
def test_a_path_means_what_it_does_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, meant: str
) -> None:
    here = tmp_path.resolve() / "here"
    (here / "a").mkdir(parents=True)
    monkeypatch.chdir(here)
    names = {"here": here, "above": here.parent}
    assert absolute_address(typed.format(**names)) == meant.format(**names)


def test_the_parent_of_a_link_is_the_one_that_the_system_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path.resolve() / "far" / "real"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    monkeypatch.chdir(tmp_path)
    assert absolute_address("link/../x") == f"{real.parent}/x"
    assert absolute_address("link/x") == f"{tmp_path.resolve()}/link/x"
