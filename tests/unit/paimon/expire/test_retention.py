"""Which snapshots and changelogs stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.errors import ConfigError, UsageError
from lakesweep.paimon.expire.retention import (
    RetentionLimits,
    RetentionOverrides,
    changelog_retention,
    first_kept_changelog,
    first_kept_snapshot,
    is_decoupled,
    snapshot_retention,
)
from lakesweep.paimon.model.options import Options

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _at(number: int) -> datetime:
    """Snapshots are committed an hour apart, the thousandth of them now."""
    return NOW - timedelta(hours=1000 - number)


def _millis(number: int) -> int:
    return int(_at(number).timestamp() * 1000)


def _retention(
    least: int = 1, most: int = 10_000, cut: int = 0, limit: int = 10_000
) -> RetentionLimits:
    """What is committed from the snapshot `cut` on is young."""
    return RetentionLimits(least, most, _at(cut), limit)


def _first(ids: list[int], retention: RetentionLimits, *consumers: int) -> int | None:
    return first_kept_snapshot(ids, retention, _millis, consumers)


@pytest.mark.parametrize(
    ("retention", "first"),
    [
        (_retention(), 1),
        (_retention(most=3), 8),
        (_retention(most=1), 10),
        (_retention(most=3, limit=4), 5),
        (_retention(most=3, limit=0), 1),
        (_retention(least=4, cut=100), 7),
        (_retention(least=4, most=4), 7),
        (_retention(cut=100), 10),
        (_retention(cut=100, limit=3), 4),
    ],
)
def test_numbers_age_and_limit_decide_on_the_first_that_stays(
    retention: RetentionLimits, first: int
) -> None:
    assert _first(list(range(1, 11)), retention) == first


def test_a_snapshot_goes_by_age_only_if_the_next_is_older_than_the_cut() -> None:
    assert _first([1, 2, 3, 4, 5], _retention(cut=4)) == 3


def test_a_snapshot_of_the_very_moment_of_the_cut_is_young() -> None:
    cut = _at(4) - timedelta(microseconds=1)
    assert _first([1, 2, 3, 4, 5], RetentionLimits(1, 99, cut, 99)) == 3


def test_across_a_gap_the_next_is_the_next_that_is_there() -> None:
    assert _first([1, 2, 5, 6], _retention(cut=4)) == 2


def test_snapshots_below_a_gap_go_with_the_rest() -> None:
    assert _first([1, 2, 5, 6, 7], _retention(most=2)) == 6


def test_where_the_first_that_stays_is_missing_it_is_the_next_that_is_there() -> None:
    assert _first([1, 2, 3, 7, 8], _retention(most=4)) == 7


def test_limits_count_numbers_with_their_gaps() -> None:
    assert _first([1, 50, 51, 52], _retention(most=1, limit=10)) == 50


@pytest.mark.parametrize(("consumers", "first"), [((4,), 4), ((9, 2), 2), ((99,), 10), ((0,), 1)])
def test_what_a_consumer_wants_next_stays(consumers: tuple[int, ...], first: int) -> None:
    assert _first(list(range(1, 11)), _retention(most=1), *consumers) == first


def test_without_snapshots_none_stays() -> None:
    assert _first([], _retention()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"retain_min": 0},
        {"retain_min": -1},
        {"retain_max": 1, "retain_min": 2},
        {"retain_max": 0},
        {"limit": -1},
    ],
)
def test_absurd_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        RetentionOverrides(**wrong).over(_retention())  # type: ignore[arg-type]


def test_a_greatest_number_below_the_tables_least_is_refused() -> None:
    with pytest.raises(UsageError):
        RetentionOverrides(retain_max=3).over(snapshot_retention(Options(), NOW))


def test_without_options_ten_stay_and_all_of_the_last_hour() -> None:
    found = snapshot_retention(Options(), NOW)
    assert found == RetentionLimits(10, 2**31 - 1, NOW - timedelta(hours=1), 10)


def test_a_table_that_cannot_be_understood_is_refused() -> None:
    with pytest.raises(ConfigError):
        snapshot_retention(Options({"snapshot.num-retained.min": "few"}), NOW)


def test_changelogs_are_kept_as_snapshots_are_unless_the_table_says_otherwise() -> None:
    options = Options({"snapshot.num-retained.min": "3", "changelog.time-retained": "2 d"})
    found = changelog_retention(options, NOW)
    assert found == RetentionLimits(3, 2**31 - 1, NOW - timedelta(days=2), 10)


@pytest.mark.parametrize(
    ("options", "outlive"),
    [
        ({}, False),
        ({"changelog.num-retained.min": "10"}, False),
        ({"changelog.num-retained.min": "11"}, True),
        ({"snapshot.num-retained.max": "20", "changelog.num-retained.max": "21"}, True),
        ({"snapshot.num-retained.max": "20", "changelog.num-retained.max": "20"}, False),
        ({"changelog.time-retained": "59 min"}, False),
        ({"changelog.time-retained": "61 min"}, True),
        ({"changelog.time-retained": "500000 d"}, True),
    ],
)
def test_changelogs_outlive_snapshots_if_they_stay_longer_in_any_way(
    options: dict[str, str], outlive: bool
) -> None:
    assert is_decoupled(Options(options)) is outlive


def _first_changelog(retention: RetentionLimits, *consumers: int) -> int | None:
    """Of the changelogs 4, 5 and 6 of a table whose snapshots go on to 9."""
    return first_kept_changelog([4, 5, 6], 9, retention, _millis, consumers)


@pytest.mark.parametrize(
    ("retention", "first"),
    [
        (_retention(), 4),
        (_retention(most=1), 6),
        (_retention(most=5), 5),
        (_retention(least=5, cut=100), 5),
        (_retention(cut=100), 6),
        (_retention(cut=5), 5),
        (_retention(most=1, limit=1), 5),
    ],
)
def test_changelogs_are_counted_from_the_latest_snapshot_and_the_newest_stays(
    retention: RetentionLimits, first: int
) -> None:
    assert _first_changelog(retention) == first


def test_the_changelog_that_a_consumer_wants_next_stays() -> None:
    assert _first_changelog(_retention(most=1), 5) == 5
