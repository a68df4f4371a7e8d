from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.clock import ManualClock, SystemClock

_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_manual_clock_stands_still() -> None:
    clock = ManualClock(_START)
    assert clock.now() == clock.now() == _START


def test_sleeping_moves_a_manual_clock() -> None:
    clock = ManualClock(_START)
    clock.sleep(90)
    assert clock.now() == _START + timedelta(seconds=90)
    assert clock.monotonic() == 90


def test_a_manual_clock_never_runs_backwards() -> None:
    clock = ManualClock(_START)
    clock.sleep(-5)
    assert clock.now() == _START


def test_a_clock_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 1, 2))  # noqa: DTZ001


def test_the_system_clock_is_in_utc_and_never_runs_backwards() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    before = clock.monotonic()
    clock.sleep(0)
    assert clock.monotonic() >= before
