"""A set of millions of ids in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lakesweep.store.backends.head_pages import Ids


class IdSet:
    """Ids in sorted runs, 8 bytes each; twice that for a moment, while two runs become one.

    Each run is more than twice as long as the next, so there are few of them to look through.
    """

    def __init__(self) -> None:
        self._runs: list[Ids] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def runs(self) -> Iterator[Ids]:
        """All ids, some thousands at a time or more, each once."""
        return iter(self._runs)

    def add(self, ids: Sequence[int] | Ids) -> Ids:
        """Add ids; answers those that are new, each once, in their order as numbers."""
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
            merged.sort(kind="stable")  # finds the two sorted halves, and only merges them
            runs.append(merged)


def _has(run: Ids, ids: Ids) -> npt.NDArray[np.bool_]:
    """Which of the ids are in the run."""
    places = np.searchsorted(run, ids)
    places[places == len(run)] = 0
    found: npt.NDArray[np.bool_] = run[places] == ids
    return found
