from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.errors import UsageError
from lakesweep.runs.due_times import (
    CronTimes,
    DueTimes,
    IntervalTimes,
    next_due,
    passed_due,
    start_delay,
    upcoming,
)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _settle(times: DueTimes, start: datetime, end: datetime, step: timedelta) -> list[datetime]:
    """What a service claims that looks every `step`."""
    claimed, settled, now = [], start, start
    while now < end:
        now += step
        if passed := passed_due(times, settled, now):
            assert passed.earlier == 0
            claimed.append(passed.due)
            settled = passed.due
    return claimed


def test_a_cron_expression_is_due_in_its_own_zone() -> None:
    times = CronTimes("0 2 * * *", "Asia/Tokyo")
    assert next_due(times, _at("2026-01-01T00:00Z")) == _at("2026-01-01T17:00Z")


def test_a_fixed_time_in_the_gap_of_spring_is_due_once_right_after_it() -> None:
    times = CronTimes("30 2 * * *", "Europe/Berlin")  # 02:30 does not exist on 29 March 2026
    start, end = _at("2026-03-28T00:00Z"), _at("2026-03-31T00:00Z")
    claimed = _settle(times, start, end, timedelta(minutes=7))
    assert [due.date().isoformat() for due in claimed] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert claimed[1] == _at("2026-03-29T01:00Z")


def test_a_fixed_time_in_the_repeated_hour_of_autumn_is_due_once() -> None:
    times = CronTimes("30 2 * * *", "Europe/Berlin")  # 02:30 comes twice on 25 October 2026
    start, end = _at("2026-10-24T03:00Z"), _at("2026-10-26T03:00Z")
    claimed = _settle(times, start, end, timedelta(minutes=7))
    assert claimed == [_at("2026-10-25T00:30Z"), _at("2026-10-26T01:30Z")]
    # Seen from the second of the two hours, the first one is over.
    assert next_due(times, _at("2026-10-25T01:10Z")) == _at("2026-10-26T01:30Z")


def test_every_quarter_of_an_hour_follows_the_time_that_passes_through_both_changes() -> None:
    times = CronTimes("*/15 * * * *", "Europe/Berlin")
    for day in ("2026-03-29", "2026-10-25"):
        start = _at(f"{day}T00:00Z")
        claimed = _settle(times, start, start + timedelta(hours=4), timedelta(minutes=1))
        assert claimed == [start + timedelta(minutes=15 * k) for k in range(1, 17)]


def test_of_due_times_that_passed_unseen_the_last_one_counts_and_the_others_are_counted() -> None:
    times = IntervalTimes(timedelta(minutes=10))
    passed = passed_due(times, _at("2026-01-01T00:00Z"), _at("2026-01-01T00:35Z"))
    assert passed is not None
    assert (passed.due, passed.earlier) == (_at("2026-01-01T00:30Z"), 2)
    assert passed_due(times, passed.due, _at("2026-01-01T00:39Z")) is None


def test_years_of_downtime_are_looked_through_at_once() -> None:
    for times in (CronTimes("* * * * *"), CronTimes("0 0 29 2 *")):
        passed = passed_due(times, _at("2016-01-01T00:00Z"), _at("2026-07-01T00:00:30Z"))
        assert passed is not None
        assert passed.due in (_at("2026-07-01T00:00Z"), _at("2024-02-29T00:00Z"))


def test_intervals_are_due_at_the_same_moments_for_every_service() -> None:
    times = IntervalTimes(timedelta(hours=6))
    due = upcoming(times, _at("2026-01-01T05:00Z"), 2)
    assert due == [_at("2026-01-01T06:00Z"), _at("2026-01-01T12:00Z")]


def test_jitter_is_the_same_everywhere_and_stays_within_its_bound() -> None:
    due, jitter = _at("2026-01-01T06:00Z"), timedelta(minutes=10)
    delays = {start_delay(f"s{number}", due, jitter) for number in range(50)}
    assert len(delays) == 50
    assert all(timedelta() <= delay < jitter for delay in delays)
    assert start_delay("s1", due, jitter) == start_delay("s1", due, jitter)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("", "UTC"),
        ("0 2 * *", "UTC"),
        ("0 2 * * * *", "UTC"),
        ("61 2 * * *", "UTC"),
        ("0 0 31 2 *", "UTC"),
        ("0 2 * * *", "Europe/Atlantis"),
        ("0 2 * * *", "../etc/passwd"),
        ("0 2 * * *", ""),
    ],
)
def test_what_is_never_due_is_refused(expression: str, zone: str) -> None:
    with pytest.raises(UsageError):
        CronTimes(expression, zone)
