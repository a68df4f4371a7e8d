"""A set of millions of ids in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lakesweep.store.backends.head_pages import Ids


class IdSet:
    """Ids in sorted runs, 8 bytes each; briefly twice that, while two runs are merged.

    Each run is more than twice as long as the next, so there are few to search.
    """

    def __init__(self) -> None:
        self._runs: list[Ids] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def runs(self) -> Iterator[Ids]:
        """All ids, each once, in arrays of some thousands or more."""
        return iter(self._runs)

    def add(self, ids: Sequence[int] | Ids) -> Ids:
        """Add ids; returns the new ones, each once, in ascending order."""
        new = np.unique(np.asarray(ids, np.int64))
        for run in self._runs:
            new = new[~_has(run, new)]
        if len(new):
            self._runs.append(new)
            self._tidy()
        return new

    def _tidy(self) -> None:
        runs = self._runs
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            merged = np.concatenate((runs.pop(), runs.pop()))
            merged.sort(kind="stable")  # detects the two sorted halves and merges them
            runs.append(merged)


def _has(run: Ids, ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the ids are in the run."""
    positions = np.searchsorted(run, ids)
    positions[positions == len(run)] = 0
    found: npt.NDArray[np.bool_] = run[positions] == ids
    return found
