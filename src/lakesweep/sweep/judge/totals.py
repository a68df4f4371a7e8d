"""Totals over verdicts: by reason, cause, table, location, age and size.

Each batch gives a small table of sums. Such tables can be added in any order, so every task
counts its own rows and the driver sees no files. All dimensions have the same shape and keep
reasons apart: whatever is shown is a sum over their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from lakesweep.clock import micros
from lakesweep.sweep.columns import mask_of
from lakesweep.sweep.engine.protocol import results_of
from lakesweep.sweep.guards import DeleteShare
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.verdicts import Reason, Verdict


class Dimension(StrEnum):
    """What files are counted by. `other-tables` is what was left out of `table`."""

    REASON = "reason"
    GUESS = "guess"
    TABLE = "table"
    OTHER_TABLES = "other-tables"
    GONE = "gone"
    UNLISTED = "unlisted"
    WITHHELD = "withheld"
    LOCATION = "location"
    AGE = "age"
    SIZE = "size"


#: A sum over files with this reason, and this key in this dimension (null: none).
TOTALS = pa.schema(
    [
        pa.field("dimension", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)

Numbers: TypeAlias = npt.NDArray[np.int64]


class FileTotals(msgspec.Struct, frozen=True):
    """A number of files and their known bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: FileTotals) -> FileTotals:
        return FileTotals(self.files + other.files, self.bytes + other.bytes)


NO_FILES = FileTotals()


class VerdictTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Files by what is to become of them."""

    keep: FileTotals = NO_FILES
    delete: FileTotals = NO_FILES

    @property
    def files(self) -> int:
        """How many there are."""
        return self.keep.files + self.delete.files


class ClassTotals(VerdictTotals, frozen=True, kw_only=True, rename={"name": "class"}):
    """Files of one class of ages or sizes."""

    name: str


class TableTotals(VerdictTotals, frozen=True, kw_only=True):
    """Files of a table, or of no table (None).

    Tables with less to delete share a row, which has `others` in place of a table.
    """

    table: str | UnsetType | None = UNSET
    others: bool | UnsetType = UNSET

    @property
    def name(self) -> str | None:
        """The table; None for no table and for several."""
        return None if self.table is UNSET else self.table

    @property
    def is_rest(self) -> bool:
        """Whether several tables share the row."""
        return self.others is True


_Sums: TypeAlias = dict[Any, VerdictTotals]

_UNKNOWN = "unknown"
_MIB = 1 << 20
_DAY = timedelta(days=1)

# The upper bound of each class; the last has none.
_AGES: Sequence[tuple[str, timedelta]] = (
    ("in the future", timedelta(0)),
    ("under 1 day", _DAY),
    ("1 to 7 days", 7 * _DAY),
    ("7 to 30 days", 30 * _DAY),
    ("30 to 90 days", 90 * _DAY),
    ("90 to 365 days", 365 * _DAY),
)
_OLDEST = "over 365 days"
_SIZES: Sequence[tuple[str, int]] = (
    ("empty", 1),
    ("under 1 MiB", _MIB),
    ("1 to 16 MiB", 16 * _MIB),
    ("16 to 128 MiB", 128 * _MIB),
    ("128 MiB to 1 GiB", 1024 * _MIB),
)
_LARGEST = "1 GiB and more"

#: The classes of ages and sizes, in order.
AGE_CLASSES = (*(name for name, _ in _AGES), _OLDEST, _UNKNOWN)
SIZE_CLASSES = (*(name for name, _ in _SIZES), _LARGEST, _UNKNOWN)

_REASONS = pa.array([reason.value for reason in Reason])
_VERDICTS = pa.array([reason.verdict.value for reason in Reason])
_MOST_ROWS = 1_000_000
_NOTHING = VerdictTotals()
_KEYS = ["dimension", "key", "verdict", "reason"]


def count_verdicts(rows: pa.RecordBatch, identities: pa.Array, rules: JudgeRules) -> pa.Table:
    """The totals (TOTALS) of verdicts (columns.VERDICTS) on files with these identities.

    To be combined by `merge_totals`: a sum may be spread over several rows.
    """
    is_delete = pc.equal(rows["verdict"], Verdict.DELETE.value)
    guesses = pc.if_else(is_delete, rows["rule"], pa.scalar(None, pa.string()))
    locations = rules.locations.find(identities)
    axes = (
        _axis(Dimension.GUESS, guesses),
        _Axis(Dimension.LOCATION, locations, pa.array(rules.locations.names, pa.string())),
        _Axis(Dimension.AGE, _age_classes(rows["modified"], rules.now), pa.array(AGE_CLASSES)),
        _Axis(Dimension.SIZE, _size_classes(rows["size_bytes"]), pa.array(SIZE_CLASSES)),
    )
    tables = (_axis(Dimension.TABLE, rows["table"]),)
    others = [_gone(identities, rules)] if len(rules.gone) else []
    others += (
        [_ruled(rows, Dimension.UNLISTED, Reason.UNLISTED_TABLE)] if len(rules.unlisted) else []
    )
    others += [_ruled(rows, Dimension.WITHHELD, Reason.WITHHELD)] if rules.withheld else []
    some = (total for axis in others for total in _count(rows, (axis,)))
    return pa.concat_tables([*_count(rows, axes), *_count(rows, tables), *some])


def merge_totals(totals: Iterable[pa.Table]) -> pa.Table:
    """The sums of several totals, in a fixed order."""
    together = pa.concat_tables([TOTALS.empty_table(), *totals])
    sums = together.group_by(_KEYS).aggregate([("files", "sum"), ("bytes", "sum")])
    renamed = sums.rename_columns([*_KEYS, "files", "bytes"]).cast(TOTALS)
    return renamed.sort_by([(name, "ascending") for name in _KEYS])


def totals_of(answers: pa.Table) -> pa.Table:
    """The totals that the tasks of a judge step returned."""
    rows = list(results_of(answers, "total", dict[str, Any]))
    return merge_totals([pa.Table.from_pylist(rows, schema=TOTALS)])


class TotalsSum:
    """Totals that are combined as they arrive, without recomputing everything each time."""

    def __init__(self) -> None:
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def add(self, totals: pa.Table) -> None:
        """Add the totals of one batch."""
        self._waiting.append(totals)
        self._rows += totals.num_rows
        if self._rows > _MOST_ROWS:
            self._waiting = [merge_totals(self._waiting)]
            # If merging does not shrink them, do not try again for every batch.
            self._rows = 0

    def total(self) -> pa.Table:
        """Everything that was added."""
        return merge_totals(self._waiting)


def keep_top_tables(totals: pa.Table, most: int) -> pa.Table:
    """The same, with only the tables with most bytes to delete; one row per reason for the rest."""
    top = [each.name for each in tables_of(totals)[:most]]
    is_table = pc.equal(totals["dimension"], Dimension.TABLE.value)
    is_left_out = pc.and_not(is_table, pc.is_in(totals["key"], pa.array(top, pa.string())))
    dimension = pc.if_else(is_left_out, Dimension.OTHER_TABLES.value, totals["dimension"])
    key = pc.if_else(is_left_out, pa.scalar(None, pa.string()), totals["key"])
    changed = totals.set_column(0, TOTALS.field(0), dimension).set_column(1, TOTALS.field(1), key)
    return merge_totals([changed])


def reasons_of(totals: pa.Table) -> dict[str, dict[str, FileTotals]]:
    """Files and bytes by verdict and reason."""
    # Each file has exactly one size class, so that dimension counts every file once.
    sums = _sums(totals, Dimension.SIZE, by="reason")
    return {
        verdict.value: {
            reason.value: getattr(sums[reason.value], verdict.value)
            for reason in Reason
            if reason.verdict is verdict and reason.value in sums
        }
        for verdict in Verdict
    }


def guesses_of(totals: pa.Table) -> dict[str, FileTotals]:
    """Files and bytes to delete, by the guessed cause."""
    sums = _sums(totals, Dimension.GUESS)
    return {key: sums[key].delete for key in sums if key is not None}


def classes_of(totals: pa.Table, dimension: Dimension) -> list[ClassTotals]:
    """Files and bytes by class of age or size, in order; only classes with files."""
    order = AGE_CLASSES if dimension is Dimension.AGE else SIZE_CLASSES
    sums = _sums(totals, dimension)
    return [
        ClassTotals(name=name, keep=sums[name].keep, delete=sums[name].delete)
        for name in order
        if name in sums
    ]


def tables_of(totals: pa.Table) -> list[TableTotals]:
    """Files and bytes by table, most bytes to delete first; None is outside of all tables.

    What `keep_top_tables` left out comes last.
    """
    tables = [
        TableTotals(table=name, keep=sums.keep, delete=sums.delete)
        for name, sums in _sums(totals, Dimension.TABLE).items()
    ]
    tables.sort(key=lambda each: (-each.delete.bytes, -each.keep.bytes, str(each.name)))
    left_out = _sums(totals, Dimension.OTHER_TABLES).values()
    rest = (TableTotals(others=True, keep=sums.keep, delete=sums.delete) for sums in left_out)
    return [*tables, *rest]


def gone_of(totals: pa.Table) -> dict[str, tuple[int, int]]:
    """How many files of each root that is gone would be deleted, and how many there are."""
    return {
        name: (amounts.delete.files, amounts.files)
        for name, amounts in _sums(totals, Dimension.GONE).items()
        if name is not None
    }


def withheld_of(totals: pa.Table) -> dict[str, int]:
    """How many files each guard withholds."""
    sums = _sums(totals, Dimension.WITHHELD)
    return {key: sums[key].keep.files for key in sums if key is not None}


def unlisted_of(totals: pa.Table) -> dict[str, FileTotals]:
    """Files and bytes that are kept for each table that no root lists."""
    sums = _sums(totals, Dimension.UNLISTED)
    return {key: sums[key].keep for key in sums if key is not None}


def table_deletes_of(totals: pa.Table) -> dict[str, int]:
    """How many files of each table would be deleted."""
    sums = _sums(totals, Dimension.TABLE)
    return {key: sums[key].delete.files for key in sums if key is not None}


def shares_of(totals: pa.Table) -> list[DeleteShare]:
    """How much of each location and of each table's folder would be deleted."""
    return [
        DeleteShare(
            key,
            amounts.files,
            amounts.delete.files,
            dimension is Dimension.TABLE,
        )
        for dimension in (Dimension.LOCATION, Dimension.TABLE)
        for key, amounts in _sums(totals, dimension).items()
        if key is not None
    ]


def _sums(totals: pa.Table, dimension: Dimension, by: str = "key") -> _Sums:
    """Files and bytes of each verdict, by the values of a column."""
    sums: _Sums = {}
    rows = totals.filter(pc.equal(totals["dimension"], dimension.value)).to_pylist()
    for row in rows:
        before = sums.get(row[by], _NOTHING)
        total = getattr(before, row["verdict"]) + FileTotals(row["files"], row["bytes"])
        sums[row[by]] = msgspec.structs.replace(before, **{row["verdict"]: total})
    return sums


@dataclass(frozen=True, slots=True)
class _Axis:
    """One dimension of a batch: each file's index among the keys, -1 for none."""

    dimension: Dimension
    numbers: npt.NDArray[np.int32] | Numbers
    keys: pa.Array


def _gone(identities: pa.Array, rules: JudgeRules) -> _Axis:
    names = pa.array(rules.gone.names, pa.string())
    return _Axis(Dimension.GONE, rules.gone.find(identities), names)


def _ruled(rows: pa.RecordBatch, dimension: Dimension, reason: Reason) -> _Axis:
    """Files with a reason, by what it is about."""
    is_one = pc.equal(rows["reason"], reason.value)
    names = pc.if_else(is_one, rows["rule"], pa.scalar(None, pa.string()))
    return _axis(dimension, names)


def _axis(dimension: Dimension, texts: pa.Array) -> _Axis:
    encoded = texts.dictionary_encode()
    return _Axis(dimension, encoded.indices.fill_null(-1).to_numpy(), encoded.dictionary)


def _count(rows: pa.RecordBatch, axes: Sequence[_Axis]) -> Iterator[pa.Table]:
    """The totals of a batch along each axis.

    Files are grouped once, by one number for the position on all axes: that is many times faster
    than by texts, and leaves few groups.
    """
    reason = _Axis(Dimension.REASON, pc.index_in(rows["reason"], _REASONS).to_numpy(), _REASONS)
    places = np.zeros(rows.num_rows, np.int64)
    for axis in (reason, *axes):
        # A mixed-radix number; 0 on an axis stands for no key.
        places = places * (len(axis.keys) + 1) + axis.numbers + 1
    columns = pa.table({"place": places, "bytes": rows["size_bytes"].fill_null(0)})
    groups = columns.group_by("place").aggregate([([], "count_all"), ("bytes", "sum")])
    keys, rest = {}, groups["place"].to_numpy()
    for axis in reversed((reason, *axes)):
        rest, numbers = np.divmod(rest, len(axis.keys) + 1)
        keys[axis.dimension] = axis.keys.take(pa.array(numbers - 1, mask=numbers == 0))
    for axis in axes:
        yield _project(groups, axis.dimension, keys)


def _project(
    groups: pa.Table, dimension: Dimension, keys: Mapping[Dimension, pa.Array]
) -> pa.Table:
    reasons = keys[Dimension.REASON]
    verdicts = _VERDICTS.take(pc.index_in(reasons, _REASONS))
    name = pa.array([dimension.value] * len(reasons), pa.string())
    columns = [name, keys[dimension], verdicts, reasons, groups["count_all"], groups["bytes_sum"]]
    return pa.table(columns, schema=TOTALS)


def _age_classes(modified: pa.Array, now: datetime) -> Numbers:
    ends = np.array([end // timedelta(microseconds=1) for _, end in _AGES], np.int64)
    return _classes(pc.subtract(micros(now), modified.cast(pa.int64())), ends)


def _size_classes(sizes: pa.Array) -> Numbers:
    return _classes(sizes, np.array([end for _, end in _SIZES], np.int64))


def _classes(values: pa.Array, ends: Numbers) -> Numbers:
    """The class of each value; the one behind the last is for those that are not known."""
    numbers: Numbers = np.searchsorted(ends, values.fill_null(0).to_numpy(), side="right")
    numbers[mask_of(values.is_null())] = len(ends) + 1
    return numbers
