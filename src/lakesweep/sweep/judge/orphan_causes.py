"""Guess why an orphan file exists. This is a label for people and decides nothing.

What the name contains (a metadata version, a snapshot id) and the age of the file are compared with
what is known about the table in whose folder it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.iceberg.file_kinds import METADATA_VERSION, SNAPSHOT, IcebergKind
from lakesweep.marks.columns import RootFacts
from lakesweep.sweep.columns import Mask, mask_of
from lakesweep.sweep.paths.file_names import FileNames, FormatFamily
from lakesweep.sweep.paths.folder_map import FolderMap, FolderNumbers
from lakesweep.sweep.verdicts import OrphanCause

_UNKNOWN = np.iinfo(np.int64).min
_GUESSES = pa.array([guess.value for guess in OrphanCause])

Numbers = npt.NDArray[np.int64]


def _no_numbers() -> Numbers:
    return np.empty(0, np.int64)


def _no_texts() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The facts of all tables: times and versions by folder, snapshot ids as texts."""

    oldest_snapshot: Numbers = field(default_factory=_no_numbers)
    oldest_version: Numbers = field(default_factory=_no_numbers)
    snapshots: pa.Array = field(default_factory=_no_texts)


def table_history(
    tables: FolderMap, facts: Mapping[str, RootFacts], snapshots: Iterable[str] = ()
) -> TableHistory:
    """What tables declare, by name, and the ids of snapshots, if available."""
    known = [facts.get(name) for name in tables.names]
    moments = (_UNKNOWN if one is None else _micros(one.oldest_snapshot_ms) for one in known)
    versions = (_UNKNOWN if one is None else _or_unknown(one.oldest_version) for one in known)
    return TableHistory(
        np.fromiter(moments, np.int64, len(known)),
        np.fromiter(versions, np.int64, len(known)),
        pa.array(sorted(set(snapshots)), pa.string()),
    )


def guess_causes(
    names: FileNames, modified: Numbers, tables: FolderNumbers, history: TableHistory
) -> pa.Array:
    """A guess for each file that nothing references.

    `modified` is in microseconds since 1970; `tables` is the number of the table's folder, -1 for
    none.
    """
    paths, kinds = names.paths, names.kinds()
    of_paimon = mask_of(pc.equal(names.families(), FormatFamily.PAIMON.value).fill_null(False))
    is_named = mask_of(kinds.is_valid()) | of_paimon
    is_metadata = _is(kinds, IcebergKind.METADATA)
    is_list = _is(kinds, IcebergKind.MANIFEST_LIST)
    is_statistics = _is(kinds, IcebergKind.STATISTICS, IcebergKind.PARTITION_STATISTICS)
    is_known = _names_known_snapshot(paths, is_list | is_statistics, history)
    is_expired = modified < _by_table(history.oldest_snapshot, tables)
    rules = (
        (names.temporary(), OrphanCause.TEMPORARY),
        (~is_named, OrphanCause.UNKNOWN),
        (tables < 0, OrphanCause.DROPPED_TABLE),
        (is_metadata & _is_logged(paths, is_metadata, tables, history), OrphanCause.FAILED_COMMIT),
        (is_metadata | _is(kinds, IcebergKind.VERSION_HINT), OrphanCause.OLD_METADATA),
        (is_statistics & is_known, OrphanCause.OLD_METADATA),
        (is_statistics, OrphanCause.EXPIRED_SNAPSHOT),
        (is_list & is_known, OrphanCause.FAILED_COMMIT),
        (is_expired, OrphanCause.EXPIRED_SNAPSHOT),
        (
            is_list | _is(kinds, IcebergKind.MANIFEST) | _is_meta(paths, of_paimon),
            OrphanCause.FAILED_COMMIT,
        ),
        (is_named, OrphanCause.ABORTED_WRITE),
    )
    return _first_that_holds(rules, len(names))


def _first_that_holds(rules: Iterable[tuple[Mask, OrphanCause]], count: int) -> pa.Array:
    order = list(OrphanCause)
    numbers = np.full(count, -1, np.int8)
    for mask, guess_ in rules:
        numbers[mask & (numbers < 0)] = order.index(guess_)
    return _GUESSES.take(pa.array(numbers))


def _is_logged(paths: pa.Array, chosen: Mask, tables: FolderNumbers, history: TableHistory) -> Mask:
    """Whether metadata has a version that the table's log still reaches back to.

    Whatever the log names is live. So this file was written for a commit that lost to another one.
    """
    rows = np.flatnonzero(chosen & (tables >= 0))
    versions = (
        _numbers(paths.take(pa.array(rows)), METADATA_VERSION).cast(pa.int64()).fill_null(_UNKNOWN)
    )
    oldest = _by_table(history.oldest_version, tables[rows])
    logged = np.zeros(len(paths), np.bool_)
    logged[rows] = (oldest != _UNKNOWN) & (versions.to_numpy() >= oldest)
    return logged


def _names_known_snapshot(paths: pa.Array, chosen: Mask, history: TableHistory) -> Mask:
    rows = np.flatnonzero(chosen)
    ids = _numbers(paths.take(pa.array(rows)), SNAPSHOT)
    known = np.zeros(len(paths), np.bool_)
    known[rows] = mask_of(pc.is_in(ids, value_set=history.snapshots))
    return known


def _numbers(paths: pa.Array, pattern: str) -> pa.Array:
    """The digits in each name, as text; null if there are none."""
    return pc.struct_field(pc.extract_regex(paths, pattern), "number")


def _by_table(values: Numbers, tables: FolderNumbers) -> Numbers:
    """The value of each file's table; unknown if there is no table, or no value."""
    return np.append(values, _UNKNOWN)[tables] if len(values) else np.full(len(tables), _UNKNOWN)


def _is_meta(paths: pa.Array, of_paimon: Mask) -> Mask:
    """Whether a Paimon file was written for a commit, after all data."""
    return of_paimon & mask_of(pc.match_substring_regex(paths, "/(manifest|statistics)/[^/]*$"))


def _is(kinds: pa.Array, *wanted: IcebergKind) -> Mask:
    return mask_of(pc.is_in(kinds, value_set=pa.array([kind.value for kind in wanted])))


def _micros(milliseconds: int | None) -> int:
    return _UNKNOWN if milliseconds is None else 1000 * milliseconds


def _or_unknown(number: int | None) -> int:
    return _UNKNOWN if number is None else number
