from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from lakesweep.clock import ManualClock
from lakesweep.storage.wrappers.adaptive_concurrency import AdaptiveConcurrency


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


def begin(pace: AdaptiveConcurrency, requests: int) -> list[int]:
    return [pace.begin() for _ in range(requests)]


def test_there_is_no_limit_before_the_first_throttle(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    begin(pace, 100)
    assert pace.limit is None


def test_a_throttle_halves_what_is_in_flight(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    numbers = begin(pace, 16)
    pace.slow_down(numbers[3])
    assert pace.limit == 8


def test_one_burst_cuts_once(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    for number in begin(pace, 16):
        pace.slow_down(number)
    assert pace.limit == 8


def test_requests_begun_after_a_cut_cut_again_but_never_to_nothing(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    begin(pace, 15)
    for limit in (8.0, 4.0, 2.0, 1.0, 1.0):
        while pace.limit is not None and pace._in_flight >= max(1, int(pace.limit)):
            pace.end()
        pace.slow_down(pace.begin())
        assert pace.limit is not None
        assert pace.limit <= limit
    assert pace.limit == 1.0


def test_a_round_of_good_answers_raises_the_limit_by_about_one(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 16)[-1])
    for _ in range(8):
        pace.speed_up()
    assert pace.limit == pytest.approx(9, abs=0.1)


def test_the_limit_goes_when_nobody_needs_it(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 2)[-1])
    for _ in range(20):
        pace.speed_up()
    assert pace.limit is None


def test_everybody_waits_for_the_pause_that_was_asked_for(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 4)[0], pause=5)
    for _ in range(4):
        pace.end()
    pace.begin()
    assert clock.monotonic() == 5


def test_no_more_requests_than_the_limit_are_in_flight(clock: ManualClock) -> None:
    pace = AdaptiveConcurrency(clock)
    pace.slow_down(begin(pace, 8)[-1])
    for _ in range(8):
        pace.end()
    counting, under_way, most = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal under_way, most
        pace.begin()
        with counting:
            under_way += 1
            most = max(most, under_way)
        with counting:
            under_way -= 1
        pace.end()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(500)))
    assert most <= 4
