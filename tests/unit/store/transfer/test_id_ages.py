from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import RefusedError
from lakesweep.store.ids.snowflake import compose, millisecond_of
from lakesweep.store.transfer.realm_import import PATIENCE, TOLERANCE, await_age, check_age
from tests.moments import NOON


def _id(**ahead: float) -> int:
    return compose(millisecond_of(NOON + timedelta(**ahead)), 7, 3)


def test_nobody_waits_for_what_is_past() -> None:
    clock = ManualClock(NOON)
    await_age(_id(seconds=-2), clock)
    assert clock.monotonic() == 0


@pytest.mark.parametrize("seconds", [-0.5, 0, 0.5, 30])
def test_what_is_soon_past_is_waited_for(seconds: float) -> None:
    clock = ManualClock(NOON)
    await_age(_id(seconds=seconds), clock)
    assert clock.now() - NOON >= timedelta(seconds=seconds) + TOLERANCE


def test_what_is_far_ahead_is_refused_with_both_times() -> None:
    with pytest.raises(RefusedError) as caught:
        check_age(_id(days=1), ManualClock(NOON))
    assert "2026-06-02 12:00:00+00:00" in caught.value.message
    assert "2026-06-01 12:00:00+00:00" in caught.value.message
    assert "clock" in caught.value.hint


def test_the_check_waits_for_nothing() -> None:
    clock = ManualClock(NOON)
    check_age(_id(seconds=PATIENCE.total_seconds() - 2), clock)
    assert clock.monotonic() == 0
