"""What a scan counted."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add

import msgspec


class MaintenanceStats(msgspec.Struct, frozen=True):
    """References, or rows of objects: an object in parts counts once a part.

    What was `scanned` was `retained`, `newer` than the cut-off, or `unreferenced`. Of the latter
    some were `purged`, none of them by a dry run, and some `failed` to be; the rest was changed or
    deleted by somebody else in between.
    """

    scanned: int = 0
    retained: int = 0
    newer: int = 0
    unreferenced: int = 0
    purged: int = 0
    failed: int = 0

    def __add__(self, other: MaintenanceStats) -> MaintenanceStats:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return MaintenanceStats(*(mine + others for mine, others in pairs))


NOTHING = MaintenanceStats()


def total(stats: Iterable[MaintenanceStats]) -> MaintenanceStats:
    """All of them together."""
    return reduce(add, stats, NOTHING)
