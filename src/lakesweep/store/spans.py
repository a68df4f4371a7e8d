"""Cutting the ids of a realm for scans that run at once."""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.store.backend import EVERY_ID, IdSpan


def split_span(lowest: int, highest: int, count: int) -> Sequence[IdSpan]:
    """Cut all ids so that those from `lowest` to `highest` fall into `count` equal shares."""
    if count < 1:
        raise ValueError("a scan has at least one share")
    width = highest - lowest + 1
    cuts = sorted({lowest + width * share // count for share in range(1, count)} - {lowest})
    firsts = [EVERY_ID.first, *cuts]
    lasts = [*(cut - 1 for cut in cuts), EVERY_ID.last]
    return [IdSpan(first, last) for first, last in zip(firsts, lasts, strict=True)]
