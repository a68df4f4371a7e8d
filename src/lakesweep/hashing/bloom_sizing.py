"""Size Bloom filters, and decide what to do when one turns out too small.

Used for the files of a lake and for the rows of the store. A filter with too many false
positives is not dangerous: it keeps garbage. But it hides how much it keeps. So a run with such
a filter deletes nothing, unless it can build a larger one from the marks it still has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.errors import UsageError
from lakesweep.hashing.bloom_filter import MAX_FPP, MIN_FPP, BloomFill, BloomShape, shape_for

#: A filter for fewer files would save nothing.
_MIN_FILES = 100_000


@dataclass(frozen=True, slots=True)
class BloomPolicy:
    """The false-positive rates of a filter: when built, and the limit when full; its head room."""

    fpp: float = 1e-5
    acceptable_fpp: float = 5e-5
    multiplier: float = 1.1

    def __post_init__(self) -> None:
        if not MIN_FPP <= self.fpp < self.acceptable_fpp <= 1:
            raise UsageError(
                f"a filter's false-positive rates must lie between {MIN_FPP} and 1, "
                "the acceptable one above the initial one"
            )
        if self.multiplier <= 1:
            raise UsageError("the filter's multiplier must be above 1")

    def accepts(self, fpp: float) -> bool:
        """Whether a filter with this false-positive rate is good enough to delete by."""
        return fpp < self.acceptable_fpp


DEFAULT_POLICY = BloomPolicy()


class BloomFit(StrEnum):
    """What follows from how full a filter is."""

    FITS = "fits"
    RESIZE = "resize"
    NO_DELETES = "no-deletes"


@dataclass(frozen=True, slots=True)
class BloomFigures:
    """What a run records about its filter. `inserted` is the number of distinct files in it."""

    capacity: int
    inserted: int
    bits: int
    functions: int
    shards: int
    expected_fpp: float
    rebuilt: bool = False


def expected_count(seen: int, *, least: int, policy: BloomPolicy = DEFAULT_POLICY) -> int:
    """How many keys to size a filter for, if earlier runs saw up to `seen`."""
    return max(least, round(seen * policy.multiplier))


def expected_live(most_live: int, entries: int | None, policy: BloomPolicy = DEFAULT_POLICY) -> int:
    """How many live files to size a filter for.

    `most_live` is the high-water mark of earlier runs, 0 before the first. `entries` is the count
    in the manifests of this run, None if unknown; it counts a file once per manifest, which only
    makes the filter larger.
    """
    return expected_count(max(most_live, entries or 0), least=_MIN_FILES, policy=policy)


def first_shape(capacity: int, salt: int, policy: BloomPolicy = DEFAULT_POLICY) -> BloomShape:
    """The filter for this many keys."""
    return shape_for(capacity, min(policy.fpp, MAX_FPP), salt)


def largest_shape(
    shape: BloomShape, max_bytes: int | None, policy: BloomPolicy = DEFAULT_POLICY
) -> BloomShape:
    """The same filter, or a smaller one that takes no more bytes than allowed."""
    if max_bytes is None or shape.size_bytes <= max_bytes:
        return shape
    # Files that several manifests name were counted more than once, so it may do all the same.
    capacity = max(1, shape.capacity * max_bytes // shape.size_bytes)
    return first_shape(capacity, shape.salt, policy)


def check_fill(
    fill: BloomFill, *, can_rebuild: bool, policy: BloomPolicy = DEFAULT_POLICY
) -> BloomFit:
    """Whether a filter that holds all live files can be used.

    `can_rebuild` says that all marks are still available, and that this is the first attempt.
    """
    if policy.accepts(fill.expected_fpp):
        return BloomFit.FITS
    return BloomFit.RESIZE if can_rebuild else BloomFit.NO_DELETES


def better_shape(
    shape: BloomShape, fill: BloomFill, rows: int, policy: BloomPolicy = DEFAULT_POLICY
) -> BloomShape:
    """The filter to build instead, with the same salt. `rows` counts the marks with duplicates.

    The estimate of distinct keys is good while some bits are zero; a filter without any only
    shows that it was too small.
    """
    distinct = min(fill.distinct, rows)
    capacity = expected_live(math.ceil(distinct), None, policy)
    return first_shape(max(capacity, shape.capacity + 1), shape.salt, policy)


def bloom_figures(shape: BloomShape, fill: BloomFill, *, rebuilt: bool = False) -> BloomFigures:
    """What to record about a filter."""
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
