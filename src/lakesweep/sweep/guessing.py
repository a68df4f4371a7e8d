"""Why a file that nothing references may be there: a label for people, which decides nothing.

What a name holds (a version of metadata, the id of a snapshot) and the age of the file are compared
with what is known of the table in whose folder it lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.iceberg.kinds import Kind
from lakesweep.iceberg.names import METADATA_VERSION, SNAPSHOT
from lakesweep.storage.marks import Facts
from lakesweep.sweep.kinds import Family, Names
from lakesweep.sweep.masks import Mask, mask_of
from lakesweep.sweep.owners import FolderMap, Found
from lakesweep.sweep.verdicts import Guess

_UNKNOWN = np.iinfo(np.int64).min
_GUESSES = pa.array([guess.value for guess in Guess])

Numbers = npt.NDArray[np.int64]


def _no_numbers() -> Numbers:
    return np.empty(0, np.int64)


def _no_texts() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class History:
    """The facts of all tables: moments and versions by the folder, ids of snapshots as texts."""

    oldest_snapshot: Numbers = field(default_factory=_no_numbers)
    oldest_version: Numbers = field(default_factory=_no_numbers)
    snapshots: pa.Array = field(default_factory=_no_texts)


def history_of(
    tables: FolderMap, facts: Mapping[str, Facts], snapshots: Iterable[str] = ()
) -> History:
    """What tables say of themselves, by their names, and the ids of snapshots, if at hand."""
    known = [facts.get(name) for name in tables.names]
    moments = (_UNKNOWN if one is None else _micros(one.oldest_snapshot_ms) for one in known)
    versions = (_UNKNOWN if one is None else _or_unknown(one.oldest_version) for one in known)
    return History(
        np.fromiter(moments, np.int64, len(known)),
        np.fromiter(versions, np.int64, len(known)),
        pa.array(sorted(set(snapshots)), pa.string()),
    )


def guess(names: Names, modified: Numbers, tables: Found, history: History) -> pa.Array:
    """A guess for each file that nothing references.

    `modified` is in microseconds since 1970, `tables` the number of the table's folder, -1 for
    none.
    """
    paths, kinds = names.paths, names.kinds()
    of_paimon = mask_of(pc.equal(names.families(), Family.PAIMON.value).fill_null(False))
    is_named = mask_of(kinds.is_valid()) | of_paimon
    is_metadata = _is(kinds, Kind.METADATA)
    is_list = _is(kinds, Kind.MANIFEST_LIST)
    is_statistics = _is(kinds, Kind.STATISTICS, Kind.PARTITION_STATISTICS)
    is_known = _names_known_snapshot(paths, is_list | is_statistics, history)
    is_expired = modified < _by_table(history.oldest_snapshot, tables)
    rules = (
        (names.temporary(), Guess.TEMPORARY),
        (~is_named, Guess.UNKNOWN),
        (tables < 0, Guess.DROPPED_TABLE),
        (is_metadata & _is_logged(paths, is_metadata, tables, history), Guess.FAILED_COMMIT),
        (is_metadata | _is(kinds, Kind.VERSION_HINT), Guess.OLD_METADATA),
        (is_statistics & is_known, Guess.OLD_METADATA),
        (is_statistics, Guess.EXPIRED_SNAPSHOT),
        (is_list & is_known, Guess.FAILED_COMMIT),
        (is_expired, Guess.EXPIRED_SNAPSHOT),
        (is_list | _is(kinds, Kind.MANIFEST) | _is_meta(paths, of_paimon), Guess.FAILED_COMMIT),
        (is_named, Guess.ABORTED_WRITE),
    )
    return _first_that_holds(rules, len(names))


def _first_that_holds(rules: Iterable[tuple[Mask, Guess]], count: int) -> pa.Array:
    order = list(Guess)
    numbers = np.full(count, -1, np.int8)
    for mask, guess_ in rules:
        numbers[mask & (numbers < 0)] = order.index(guess_)
    return _GUESSES.take(pa.array(numbers))


def _is_logged(paths: pa.Array, chosen: Mask, tables: Found, history: History) -> Mask:
    """Whether metadata is of a version that the table's log still reaches back to.

    What the log names is live. So this file was written for a commit that another one won.
    """
    rows = np.flatnonzero(chosen & (tables >= 0))
    versions = (
        _numbers(paths.take(pa.array(rows)), METADATA_VERSION).cast(pa.int64()).fill_null(_UNKNOWN)
    )
    oldest = _by_table(history.oldest_version, tables[rows])
    logged = np.zeros(len(paths), np.bool_)
    logged[rows] = (oldest != _UNKNOWN) & (versions.to_numpy() >= oldest)
    return logged


def _names_known_snapshot(paths: pa.Array, chosen: Mask, history: History) -> Mask:
    rows = np.flatnonzero(chosen)
    ids = _numbers(paths.take(pa.array(rows)), SNAPSHOT)
    known = np.zeros(len(paths), np.bool_)
    known[rows] = mask_of(pc.is_in(ids, value_set=history.snapshots))
    return known


def _numbers(paths: pa.Array, pattern: str) -> pa.Array:
    """The digits that each name holds, as text; null where it holds none."""
    return pc.struct_field(pc.extract_regex(paths, pattern), "number")


def _by_table(values: Numbers, tables: Found) -> Numbers:
    """The value of each file's table; unknown where there is no table, or nothing is known."""
    return np.append(values, _UNKNOWN)[tables] if len(values) else np.full(len(tables), _UNKNOWN)


def _is_meta(paths: pa.Array, of_paimon: Mask) -> Mask:
    """Whether a file of Paimon was written for a commit, after all data."""
    return of_paimon & mask_of(pc.match_substring_regex(paths, "/(manifest|statistics)/[^/]*$"))


def _is(kinds: pa.Array, *wanted: Kind) -> Mask:
    return mask_of(pc.is_in(kinds, value_set=pa.array([kind.value for kind in wanted])))


def _micros(milliseconds: int | None) -> int:
    return _UNKNOWN if milliseconds is None else 1000 * milliseconds


def _or_unknown(number: int | None) -> int:
    return _UNKNOWN if number is None else number
