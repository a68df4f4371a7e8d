"""File filters by age, size, kind, glob and regex, as Arrow expressions.

An unknown value is never selected: a file without a modification time matches no condition on
age, one without a size none on size, one without a kind none on kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UsageError
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.globs import translate

#: Returns the expression for files below a location, whose address ends in `/`.
Condition = Callable[[str], pc.Expression]

_MODIFIED = FILE_SCHEMA.field("modified").type


@dataclass(frozen=True, slots=True)
class Filter:
    """Files that satisfy all conditions; all files if there are none."""

    conditions: tuple[Condition, ...] = ()

    def __and__(self, other: Filter) -> Filter:
        return Filter(self.conditions + other.conditions)

    def expression(self, base: str) -> pc.Expression:
        """One expression over FILE_SCHEMA. Globs and regexes apply to the path below `base`."""
        folder = base if base.endswith("/") else base + "/"
        return reduce(and_, (condition(folder) for condition in self.conditions), pc.scalar(True))

    def apply(self, batch: pa.RecordBatch, base: str) -> pa.RecordBatch:
        """The matching rows, for files below `base`."""
        return batch.filter(self.expression(base)) if self.conditions else batch


def older_than(moment: datetime) -> Filter:
    """Last modified before a moment."""
    return Filter((partial(_older, _aware(moment)),))


def newer_than(moment: datetime) -> Filter:
    """Last modified after a moment."""
    return Filter((partial(_newer, _aware(moment)),))


def min_size(size_bytes: int) -> Filter:
    """At least this many bytes."""
    return Filter((partial(_at_least, size_bytes),))


def max_size(size_bytes: int) -> Filter:
    """At most this many bytes."""
    return Filter((partial(_at_most, size_bytes),))


def kind(kinds: Iterable[str]) -> Filter:
    """Of one of these kinds."""
    return Filter((partial(_of_kind, tuple(kinds)),))


def glob(patterns: Iterable[str]) -> Filter:
    """Matches one of these patterns (see `globs`); no condition if there are none."""
    given = tuple(patterns)
    return Filter((partial(_matches, translate(given)),)) if given else Filter()


def exclude(patterns: Iterable[str]) -> Filter:
    """Matches none of these patterns."""
    given = tuple(patterns)
    return Filter((partial(_matches_not, translate(given)),)) if given else Filter()


def regex(pattern: str) -> Filter:
    """The path below the location contains a match of an RE2 expression."""
    if not pattern:
        raise UsageError("an empty regular expression matches everything", hint="leave it out")
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{pattern!r} is not a valid regular expression: {error}") from error
    return Filter((partial(_matches, pattern),))


def _older(moment: datetime, _: str) -> pc.Expression:
    return pc.field("modified") < pa.scalar(moment, _MODIFIED)


def _newer(moment: datetime, _: str) -> pc.Expression:
    return pc.field("modified") > pa.scalar(moment, _MODIFIED)


def _at_least(size_bytes: int, _: str) -> pc.Expression:
    return pc.field("size_bytes") >= size_bytes


def _at_most(size_bytes: int, _: str) -> pc.Expression:
    return pc.field("size_bytes") <= size_bytes


def _of_kind(kinds: tuple[str, ...], _: str) -> pc.Expression:
    return pc.field("kind").isin(pa.array(kinds, pa.string()))


def _matches(pattern: str, base: str) -> pc.Expression:
    return _is_below(base) & _match(pattern, base)


def _matches_not(pattern: str, base: str) -> pc.Expression:
    # A path outside the location cannot be matched reliably, so it is not selected.
    return _is_below(base) & ~_match(pattern, base)


def _is_below(base: str) -> pc.Expression:
    return pc.starts_with(pc.field("path"), pattern=base)


def _match(pattern: str, base: str) -> pc.Expression:
    relative = pc.utf8_slice_codeunits(pc.field("path"), start=len(base))
    return pc.match_substring_regex(relative, pattern=pattern)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise UsageError(f"{moment} has no time zone", hint="add Z for UTC, or an offset")
    return moment
