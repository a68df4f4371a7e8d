"""Cut a row of things into parts of a wanted weight."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise


def cut_evenly(weights: Sequence[int], most: float) -> list[slice]:
    """As few parts as may weigh at most `most`, all of about the same weight."""
    sums = list(accumulate(weights))
    if not sums:
        return []
    parts = max(1, -int(-sums[-1] // most))
    bounds = {bisect_left(sums, sums[-1] * i / parts) + 1 for i in range(1, parts)}
    return _slices({*bounds, len(sums)})


def cut_full(weights: Sequence[int], most: float) -> list[slice]:
    """Parts that are as full as can be, but for the last."""
    bounds = {len(weights)}
    filled = 0
    for i, weight in enumerate(weights):
        if filled and filled + weight > most:
            bounds.add(i)
            filled = 0
        filled += weight
    return _slices(bounds)


def _slices(bounds: set[int]) -> list[slice]:
    return [slice(start, stop) for start, stop in pairwise(sorted({0, *bounds}))]
