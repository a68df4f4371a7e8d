"""How often a schedule is due that decides it itself."""

from __future__ import annotations

import pytest

from lakesweep.operations.schedules.cadence import next_interval

HOUR = 3600
BOUNDS = (HOUR, 8 * HOUR)


@pytest.mark.parametrize(
    ("before", "found", "files", "seconds", "why"),
    [
        (None, 0, 0, HOUR, "no plan has been made yet"),
        (4 * HOUR, 50, 1_000, 2 * HOUR, "which is much: sooner"),
        (HOUR, 50, 1_000, HOUR, "which is much: shortest = 1h"),
        (4 * HOUR, 1, 1_000, 8 * HOUR, "which is little: later"),
        (8 * HOUR, 0, 1_000, 8 * HOUR, "which is little: longest = 8h"),
        (4 * HOUR, 10, 1_000, 4 * HOUR, "as before"),
        (90 * HOUR, 10, 1_000, 8 * HOUR, "as before"),
    ],
)
def test_the_interval_follows_what_plans_find_between_two_bounds(
    before: int | None, found: int, files: int, seconds: int, why: str
) -> None:
    after = next_interval(BOUNDS, before, found, files)
    assert after.seconds == seconds
    assert why in after.why
