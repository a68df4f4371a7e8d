from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.server.auth.throttle import LoginThrottle
from lakesweep.server.http.problems import HttpError
from tests.moments import NOON

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def throttle(clock: ManualClock) -> LoginThrottle:
    return LoginThrottle(clock)


def _fail(throttle: LoginThrottle, address: str, times: int) -> None:
    for _ in range(times):
        throttle.failed(address)


def test_a_few_failures_are_free_and_then_pauses_grow(throttle: LoginThrottle) -> None:
    _fail(throttle, HERE, 4)
    throttle.check(HERE)
    pauses = []
    for _ in range(20):
        throttle.failed(HERE)
        pauses.append(throttle.pause(HERE))
    assert pauses[:4] == [timedelta(seconds=each) for each in (1, 2, 4, 8)]
    assert pauses[-1] == timedelta(minutes=5)
    with pytest.raises(HttpError) as refused:
        throttle.check(HERE)
    assert refused.value.status == 429
    assert refused.value.headers["retry-after"] == "301"


def test_other_addresses_do_not_wait(throttle: LoginThrottle) -> None:
    _fail(throttle, HERE, 50)
    throttle.check(THERE)


def test_a_pause_ends_and_failures_are_forgotten(
    throttle: LoginThrottle, clock: ManualClock
) -> None:
    _fail(throttle, HERE, 6)
    clock.sleep(2)
    throttle.check(HERE)
    throttle.failed(HERE)
    assert throttle.pause(HERE) == timedelta(seconds=4)
    clock.sleep(900)
    throttle.failed(HERE)
    throttle.check(HERE)
    _fail(throttle, HERE, 9)
    throttle.succeeded(HERE)
    throttle.check(HERE)


def test_memory_is_bounded(throttle: LoginThrottle) -> None:
    for number in range(10_050):
        throttle.failed(f"{number:06}" * 50)
    assert len(throttle._failures) == 10_000
    assert max(map(len, throttle._failures)) == 64
