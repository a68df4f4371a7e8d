"""A set of 128-bit hashes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.strings import Hashes, readable

_FIRST_CAPACITY = 1024


class HashSet:
    """Hashes in one table that doubles at a load of two thirds: 24 to 48 bytes per hash."""

    def __init__(self) -> None:
        self._table = np.zeros((_FIRST_CAPACITY, 2), dtype=np.uint64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._table.nbytes

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes, and return which were new. Of equal ones in one call, the first is new."""
        from lakesweep.hashing import hash_set_kernels  # imports numba

        low, high = map(readable, hashes)
        is_new = np.empty(len(low), dtype=np.bool_)
        done = 0
        while True:
            done, self._size = hash_set_kernels.add(
                self._table, self._size, low, high, is_new, done
            )
            if done == len(low):
                return is_new
            self._grow()

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which of the hashes are in the set."""
        from lakesweep.hashing import hash_set_kernels  # imports numba

        low, high = map(readable, hashes)
        found = np.empty(len(low), dtype=np.bool_)
        hash_set_kernels.contains(self._table, low, high, found)
        return found

    def _grow(self) -> None:
        from lakesweep.hashing import hash_set_kernels  # imports numba

        larger = np.zeros((2 * len(self._table), 2), dtype=np.uint64)
        hash_set_kernels.move(self._table, larger)
        self._table = larger
