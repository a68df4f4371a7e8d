"""The Bloom filters of retained references and objects, and how large to make them.

A filter never loses a key, so nothing retained is ever taken for unused. An unused row may be
taken for retained; the salt changes with every run, so the next run catches other rows. The
size comes from the configuration or from the largest count of earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, prod
from secrets import randbits

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing.bloom_filter import BloomFilter, shape_for
from lakesweep.hashing.strings import Hashes, hash128
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.store.backends.head_pages import Ids

#: Above this, filters are no smaller for erring more often.
_LARGEST_FPP = 0.01
_SMALLEST_FPP = 1e-9
_GROWTH = 2

# The finalizer of SplitMix64 (Vigna).
_STEPS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)


@dataclass(frozen=True, slots=True)
class FilterSize:
    """How many keys a filter is made for, how often it may err, and what it may grow to."""

    capacity: int
    fpp: float
    most_bytes: int


class GrowingFilter:
    """A Bloom filter that gets another one beside it when it is full, twice as large.

    Each errs half as often as the one before, so all together err at most twice as often as the
    first. Without room for another one, the last is filled beyond what it was made for.
    """

    def __init__(self, size: FilterSize) -> None:
        self._size = size
        capacity = self._fitting(size.capacity, size.fpp)
        self._filters = [self._new(capacity, size.fpp)]
        self._room = capacity

    @property
    def filters(self) -> Sequence[BloomFilter]:
        return self._filters

    @property
    def size_bytes(self) -> int:
        return sum(each.words.nbytes for each in self._filters)

    @property
    def expected_fpp(self) -> float:
        """How often a stranger is taken for known."""
        return 1.0 - prod(1.0 - each.fill().expected_fpp for each in self._filters)

    def add(self, hashes: Hashes) -> None:
        """Add hashes, which were not added before."""
        low, high = hashes
        while len(low):
            if self._room <= 0:
                self._grow()
            some = min(self._room, len(low)) if self._room > 0 else len(low)
            self._filters[-1].add((low[:some], high[:some]))
            self._room -= some
            low, high = low[some:], high[some:]

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which hashes may have been added: never False for one that was."""
        return contained(self._filters, hashes)

    def _grow(self) -> None:
        capacity = self._filters[-1].shape.capacity * _GROWTH
        fpp = max(self._size.fpp / _GROWTH ** len(self._filters), _SMALLEST_FPP)
        shape = shape_for(capacity, fpp, 0)
        if self.size_bytes + shape.bits // 8 <= self._size.most_bytes:
            self._filters.append(self._new(capacity, fpp))
            self._room = capacity

    def _fitting(self, capacity: int, fpp: float) -> int:
        """As many keys as there is room for."""
        size_bytes = shape_for(capacity, min(fpp, _LARGEST_FPP), 0).bits // 8
        return max(1, min(capacity, capacity * self._size.most_bytes // size_bytes))

    def _new(self, capacity: int, fpp: float) -> BloomFilter:
        return BloomFilter(shape_for(capacity, min(fpp, _LARGEST_FPP), randbits(128)))


def contained(filters: Sequence[BloomFilter], hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which hashes at least one of the filters knows."""
    found = filters[0].contains(hashes)
    for other in filters[1:]:
        found |= other.contains(hashes)
    return found


class LiveFilters:
    """The references and the objects of all realms that stay."""

    def __init__(self, references: FilterSize, objects: FilterSize) -> None:
        self.references = GrowingFilter(references)
        self.objects = GrowingFilter(objects)

    def add_references(self, realm: str, names: Sequence[str]) -> None:
        """Let the references of a realm stay; each is named once in a run."""
        self.references.add(name_hashes(realm, names))

    def add_objects(self, realm: str, ids: Ids) -> None:
        """Let objects of a realm stay; each is named once in a run."""
        self.objects.add(id_hashes(realm, ids))


def id_hashes(realm: str, ids: Ids) -> Hashes:
    """The hashes of objects: different ones for different ids of a realm."""
    low, high = _seed(realm)
    words = ids.astype(np.uint64)
    return _mixed(words ^ low), _mixed(words + high)


def name_hashes(realm: str, names: Sequence[str]) -> Hashes:
    """The hashes of references."""
    # No realm has a character in its name that could be taken for the end of it.
    return hash128(pa.array([f"{realm}/{name}" for name in names], pa.string()))


@cache
def _seed(realm: str) -> tuple[np.uint64, np.uint64]:
    low, high = hash128(pa.array([realm]))
    return np.uint64(low[0]), np.uint64(high[0])


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for turn, factor in _STEPS:
        words = (words ^ (words >> turn)) * factor
    return words ^ (words >> _LAST)


#: Filters that are smaller than for so many references save nothing.
_FEWEST_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class FilterSizes:
    """How many references and objects are expected to stay."""

    references: int
    objects: int


def filter_sizes(
    config: MaintenanceConfig, runs: Iterable[MaintenanceRunInformation]
) -> FilterSizes:
    """What is configured, or the most that an earlier run saw and some more.

    What was scanned counts as well as what was identified: a run that failed early may have seen
    only one of the two.
    """
    references = max(config.expected_reference_count, _FEWEST_REFERENCES)
    objects = config.expected_obj_count
    for run in runs:
        seen = max(run.reference_stats.scanned, run.identified_references)
        references = max(references, ceil(seen * config.count_from_last_run_multiplier))
        seen = max(run.obj_stats.scanned, run.identified_objs)
        objects = max(objects, ceil(seen * config.count_from_last_run_multiplier))
    return FilterSizes(references, objects)
