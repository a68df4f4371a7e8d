"""Judging rows of objects: what stays, what is too new, what nothing leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.bloom import BloomFilter
from lakesweep.maintenance.marks import contained, id_hashes
from lakesweep.maintenance.stats import MaintenanceStats
from lakesweep.store.backend import HeadFields, ObjectHead
from lakesweep.store.idset import Ids

Flags: TypeAlias = npt.NDArray[np.bool_]

_ID, _TYPE, _CREATED_AT = map(itemgetter, (0, 2, 3))

#: How many rows are judged together.
PAGE_ROWS = 5_000


class Verdict(IntEnum):
    """What becomes of a row."""

    RETAINED = 0
    NEWER = 1
    UNREFERENCED = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """By what the rows of one realm are judged.

    `types` are those that this program knows. An object of any other type stays: whoever knows it
    may find it by an id that stands nowhere.
    """

    realm: str
    cut_off_at: int
    filters: Sequence[BloomFilter]
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows of whole objects, with their verdicts.

    `codes` are the places of their types among `types`, each of which is there once.
    """

    rows: Sequence[HeadFields]
    ids: Ids
    created_at: Ids
    types: Sequence[str]
    codes: npt.NDArray[np.int64]
    verdicts: npt.NDArray[np.int8]

    def of(self, verdict: Verdict) -> Sequence[ObjectHead]:
        """The rows with this verdict, in order."""
        return self.heads(self.verdicts == verdict)

    def heads(self, flags: Flags) -> Sequence[ObjectHead]:
        """The rows that are flagged, in order."""
        rows = self.rows
        return [ObjectHead._make(rows[place]) for place in np.flatnonzero(flags).tolist()]

    def stats(self) -> Mapping[str, MaintenanceStats]:
        """How many rows of each type have which verdict."""
        kinds = len(self.types) * len(Verdict)
        counts = np.bincount(self.codes * len(Verdict) + self.verdicts, minlength=kinds)
        return {
            name: MaintenanceStats(int(row.sum()), *map(int, row))
            for name, row in zip(self.types, counts.reshape(-1, len(Verdict)), strict=True)
        }


def whole_objects(heads: Iterable[HeadFields], rows: int) -> Iterator[list[HeadFields]]:
    """Pages of about so many rows, none of which ends inside an object."""
    heads = iter(heads)
    rest: list[HeadFields] = []
    while page := list(islice(heads, rows)):
        rest += page
        end = len(rest) - 1
        while end and rest[end - 1][0] == rest[end][0]:
            end -= 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def judge(rows: Sequence[HeadFields], rules: Rules) -> Judged:
    """Give each row its verdict; all rows of an object come together, and have the same one."""
    count = len(rows)
    ids = np.fromiter(map(_ID, rows), np.int64, count)
    moments = np.fromiter(map(_CREATED_AT, rows), np.int64, count)
    types, codes = _coded(rows)
    is_newer = moments > rules.cut_off_at
    if np.any(ids[1:] == ids[:-1]):
        is_newer = _anywhere(ids, is_newer)
    stays = contained(rules.filters, id_hashes(rules.realm, ids))
    if not rules.types.issuperset(types):
        stays |= np.array([name not in rules.types for name in types])[codes]
    verdicts = np.full(count, Verdict.UNREFERENCED, np.int8)
    verdicts[stays] = Verdict.RETAINED
    verdicts[is_newer] = Verdict.NEWER
    return Judged(rows, ids, moments, types, codes, verdicts)


def suspicious(judged: Judged) -> Ids:
    """The ids of retained objects that have rows of another write than their first."""
    ids, moments = judged.ids, judged.created_at
    if ids[0] == ids[-1] and len(ids) == 1:
        return ids[:0]
    is_next = ids[1:] == ids[:-1]
    differs = is_next & (moments[1:] != moments[:-1])
    retained = judged.verdicts[1:] == Verdict.RETAINED
    return np.unique(ids[1:][differs & retained])


def _anywhere(ids: Ids, flags: Flags) -> Flags:
    """Which rows belong to an object one of whose rows is flagged."""
    _, places = np.unique(ids, return_inverse=True)
    found = np.zeros(places.max() + 1, np.bool_)
    found[places[flags]] = True
    every: Flags = found[places]
    return every


def _coded(rows: Sequence[HeadFields]) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
    """Each type once, and for each row the place of its type."""
    codes: dict[str, int] = _Codes()
    places = np.fromiter(map(codes.__getitem__, map(_TYPE, rows)), np.int64, len(rows))
    return list(codes), places


class _Codes(dict[str, int]):
    def __missing__(self, name: str) -> Any:
        self[name] = code = len(self)
        return code
