"""The Bloom filters of retained references and objects, and how large to make them.

A filter has no false negatives, so nothing retained is ever deleted. A false positive keeps an
unused row; the salt changes with every run, so the next run deletes it. The size comes from the
configuration or from the largest count of earlier runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from secrets import randbits

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing.bloom_filter import MIN_FPP, BloomFilter, BloomShape
from lakesweep.hashing.bloom_sizing import BloomPolicy, expected_count, first_shape
from lakesweep.hashing.strings import Hashes, hash128
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.store.backends.rows import Ids

_GROWTH = 2
_HASHED_AT_ONCE = 1 << 16

# The finalizer of SplitMix64 (Vigna).
_STEPS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)


@dataclass(frozen=True, slots=True)
class FilterSize:
    """How many keys a filter is sized for, its false-positive rates, and its memory limit."""

    capacity: int
    policy: BloomPolicy
    max_bytes: int

    def shape(self, capacity: int, *, generation: int = 0, salt: int = 0) -> BloomShape:
        """The layout of a filter; each generation errs half as often as the one before."""
        fpp = max(self.policy.fpp / _GROWTH**generation, MIN_FPP)
        return first_shape(capacity, salt, replace(self.policy, fpp=fpp))


class GrowingFilter:
    """A chain of Bloom filters: when one is full, the next is twice as large.

    Each errs half as often as the one before, so the false-positive rate of the chain is at most
    twice that of the first. At the memory limit, the last one is filled beyond its capacity.
    """

    def __init__(self, size: FilterSize) -> None:
        self._size = size
        capacity = self._fitting(size.capacity)
        self._filters = [self._new(capacity)]
        self._room = capacity

    @property
    def filters(self) -> Sequence[BloomFilter]:
        return self._filters

    @property
    def size_bytes(self) -> int:
        return sum(each.words.nbytes for each in self._filters)

    @property
    def expected_fpp(self) -> float:
        """The false-positive rate of all filters together."""
        return 1.0 - prod(1.0 - each.fill().expected_fpp for each in self._filters)

    def add(self, hashes: Hashes) -> None:
        """Add hashes that were not added before."""
        low, high = hashes
        while len(low):
            if self._room <= 0:
                self._grow()
            some = min(self._room, len(low)) if self._room > 0 else len(low)
            self._filters[-1].add((low[:some], high[:some]))
            self._room -= some
            low, high = low[some:], high[some:]

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which hashes may have been added; never False for one that was."""
        return contained(self._filters, hashes)

    def _grow(self) -> None:
        capacity = self._filters[-1].shape.capacity * _GROWTH
        shape = self._size.shape(capacity, generation=len(self._filters))
        if self.size_bytes + shape.bits // 8 <= self._size.max_bytes:
            self._filters.append(self._new(capacity, len(self._filters)))
            self._room = capacity

    def _fitting(self, capacity: int) -> int:
        """As many keys as fit into the memory limit."""
        size_bytes = self._size.shape(capacity).bits // 8
        return max(1, min(capacity, capacity * self._size.max_bytes // size_bytes))

    def _new(self, capacity: int, generation: int = 0) -> BloomFilter:
        shape = self._size.shape(capacity, generation=generation, salt=randbits(128))
        return BloomFilter(shape)


def contained(filters: Sequence[BloomFilter], hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which hashes at least one of the filters contains."""
    found = filters[0].contains(hashes)
    for other in filters[1:]:
        found |= other.contains(hashes)
    return found


class LiveFilters:
    """The retained references and objects of all realms."""

    def __init__(self, references: FilterSize, objects: FilterSize) -> None:
        self.references = GrowingFilter(references)
        self.objects = GrowingFilter(objects)

    def add_references(self, realm: str, names: Sequence[str]) -> None:
        """Retain references of a realm; a run passes each of them once."""
        self.references.add(name_hashes(realm, names))

    def add_objects(self, realm: str, ids: Ids) -> None:
        """Retain objects of a realm; a run passes each of them once."""
        # Some at a time: the hashes of millions take many times the memory of their ids.
        for start in range(0, len(ids), _HASHED_AT_ONCE):
            self.objects.add(id_hashes(realm, ids[start : start + _HASHED_AT_ONCE]))


def id_hashes(realm: str, ids: Ids) -> Hashes:
    """The hashes of objects; distinct ids of a realm have distinct hashes."""
    low, high = _seed(realm)
    words = ids.astype(np.uint64)
    return _mixed(words ^ low), _mixed(words + high)


def name_hashes(realm: str, names: Sequence[str]) -> Hashes:
    """The hashes of references."""
    # The name of a realm cannot contain the separator.
    return hash128(pa.array([f"{realm}/{name}" for name in names], pa.string()))


@cache
def _seed(realm: str) -> tuple[np.uint64, np.uint64]:
    low, high = hash128(pa.array([realm]))
    return np.uint64(low[0]), np.uint64(high[0])


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for turn, factor in _STEPS:
        words = (words ^ (words >> turn)) * factor
    return words ^ (words >> _LAST)


#: A filter for fewer references would save nothing.
_MIN_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class FilterSizes:
    """How many retained references and objects to expect."""

    references: int
    objects: int


def filter_sizes(
    config: MaintenanceConfig, runs: Iterable[MaintenanceRunInformation]
) -> FilterSizes:
    """The configured counts, or more if an earlier run saw more.

    Scanned and identified counts both matter: a run that failed early may have only one of them.
    """
    references = objects = 0
    for run in runs:
        named = run.distinct_references or run.identified_references
        references = max(references, run.reference_stats.scanned, named)
        objects = max(objects, run.obj_stats.scanned, run.distinct_objs or run.identified_objs)
    policy = config.filter_policy
    least = max(config.expected_reference_count, _MIN_REFERENCES)
    return FilterSizes(
        expected_count(references, least=least, policy=policy),
        expected_count(objects, least=config.expected_obj_count, policy=policy),
    )
