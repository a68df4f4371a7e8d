"""Size a Bloom filter, and decide what to do if it turns out too small.

A filter with too many false positives is not dangerous: it keeps garbage. But it hides how
much it keeps. So a run with such a filter deletes nothing, unless it can build a larger one
from the marks it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.errors import UsageError
from lakesweep.hashing.bloom_filter import BloomFill, BloomShape, shape_for

_FEWEST = 100_000


@dataclass(frozen=True, slots=True)
class BloomPolicy:
    """How often the filter may err when it is made and when it is full, and its head room."""

    fpp: float = 1e-5
    acceptable_fpp: float = 5e-5
    multiplier: float = 1.1

    def __post_init__(self) -> None:
        if not 1e-9 <= self.fpp <= self.acceptable_fpp <= 1e-2:
            raise UsageError(
                "the filter's error rates must lie between 1e-9 and 0.01, the acceptable one above"
            )
        if self.multiplier <= 1:
            raise UsageError("the filter's multiplier must be above 1")


DEFAULT_POLICY = BloomPolicy()


class BloomFit(StrEnum):
    """What follows from how full a filter is."""

    FITS = "fits"
    RESIZE = "resize"
    NO_DELETES = "no-deletes"


@dataclass(frozen=True, slots=True)
class BloomFigures:
    """What a run records of its filter. `inserted` is the number of distinct files in it."""

    capacity: int
    inserted: int
    bits: int
    functions: int
    shards: int
    expected_fpp: float
    rebuilt: bool = False


def expected_live(most_live: int, entries: int | None, policy: BloomPolicy = DEFAULT_POLICY) -> int:
    """How many live files to be ready for.

    `most_live` is the high-water mark of earlier runs, 0 before the first. `entries` is what the
    manifests of this run say that they hold, None where nobody has counted; files that several
    manifests hold count several times, which only leaves more room.
    """
    known = max(most_live, entries or 0)
    return max(_FEWEST, round(known * policy.multiplier))


def first_shape(capacity: int, salt: int, policy: BloomPolicy = DEFAULT_POLICY) -> BloomShape:
    """The filter for so many live files."""
    return shape_for(capacity, policy.fpp, salt)


def check_fill(
    fill: BloomFill, *, can_rebuild: bool, policy: BloomPolicy = DEFAULT_POLICY
) -> BloomFit:
    """Whether a filter that holds all live files can be used.

    `can_rebuild` says that all marks are at hand, and that this is not the second attempt.
    """
    if fill.expected_fpp <= policy.acceptable_fpp:
        return BloomFit.FITS
    return BloomFit.RESIZE if can_rebuild else BloomFit.NO_DELETES


def better_shape(
    shape: BloomShape, fill: BloomFill, rows: int, policy: BloomPolicy = DEFAULT_POLICY
) -> BloomShape:
    """The filter to build instead, with the same salt. `rows` are the marks, with repetitions.

    The estimate of what is distinct is good while there are zeros left; a filter without any knows
    only that it was too small.
    """
    distinct = min(fill.distinct, rows)
    capacity = expected_live(math.ceil(distinct), None, policy)
    return first_shape(max(capacity, shape.capacity + 1), shape.salt, policy)


def high_water(most_live: int, live: int) -> int:
    """The mark to remember for the next run."""
    return max(most_live, live)


def bloom_figures(shape: BloomShape, fill: BloomFill, *, rebuilt: bool = False) -> BloomFigures:
    """What to record of a filter."""
    inserted = round(fill.distinct) if math.isfinite(fill.distinct) else shape.bits
    return BloomFigures(
        capacity=shape.capacity,
        inserted=inserted,
        bits=shape.bits,
        functions=shape.functions,
        shards=shape.shards,
        expected_fpp=fill.expected_fpp,
        rebuilt=rebuilt,
    )
