"""Bring equal hashes together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.strings import Hashes


def hash_order(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The places of hashes in their order, low words first.

    Words that differ in their low halves need no more; others are so rare that all are sorted anew.
    """
    low, high = hashes
    order = np.argsort(low)
    same = np.diff(low[order]) == 0
    return np.lexsort((high, low)) if np.any(same & (np.diff(high[order]) != 0)) else order
