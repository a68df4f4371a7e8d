"""Judge rows of objects: retained, too new, or unreferenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.hashing.bloom_filter import BloomFilter
from lakesweep.maintenance.live_filters import contained, id_hashes
from lakesweep.maintenance.run_records import MaintenanceStats
from lakesweep.store.backends.head_pages import HeadPage, Ids
from lakesweep.store.backends.rows import ObjectHead

Flags: TypeAlias = npt.NDArray[np.bool_]


class RowVerdict(IntEnum):
    """What becomes of a row."""

    RETAINED = 0
    NEWER = 1
    UNREFERENCED = 2


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules by which the rows of one realm are judged.

    `types` are those that this program knows. An object of any other type is retained: a program
    that knows the type may find it by an id that is stored nowhere.
    """

    realm: str
    cut_off_at: int
    filters: Sequence[BloomFilter]
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """Rows of whole objects, with their verdicts."""

    page: HeadPage
    verdicts: npt.NDArray[np.int8]

    def of(self, verdict: RowVerdict) -> Sequence[ObjectHead]:
        """The rows with this verdict, in order."""
        return self.heads(self.verdicts == verdict)

    def heads(self, flags: Flags) -> Sequence[ObjectHead]:
        """The rows that are flagged, in order."""
        return self.page.pick(np.flatnonzero(flags).tolist())

    def stats(self) -> Mapping[str, MaintenanceStats]:
        """How many rows of each type have which verdict."""
        types, codes = self.page.types, self.page.codes
        kinds = len(types) * len(RowVerdict)
        counts = np.bincount(codes * len(RowVerdict) + self.verdicts, minlength=kinds)
        return {
            name: MaintenanceStats(int(row.sum()), *map(int, row))
            for name, row in zip(types, counts.reshape(-1, len(RowVerdict)), strict=True)
        }


def judge_rows(page: HeadPage, rules: RowRules) -> JudgedRows:
    """Give each row its verdict; all rows of an object have the same one."""
    ids = page.ids
    is_newer = page.created_at > rules.cut_off_at
    if np.any(ids[1:] == ids[:-1]):
        is_newer = _anywhere(ids, is_newer)
    stays = contained(rules.filters, id_hashes(rules.realm, ids))
    if not rules.types.issuperset(page.types):
        stays |= np.array([name not in rules.types for name in page.types])[page.codes]
    verdicts = np.full(len(page), RowVerdict.UNREFERENCED, np.int8)
    verdicts[stays] = RowVerdict.RETAINED
    verdicts[is_newer] = RowVerdict.NEWER
    return JudgedRows(page, verdicts)


def mixed_writes(judged: JudgedRows) -> Ids:
    """The ids of retained objects that have rows of another write than their first."""
    ids, moments = judged.page.ids, judged.page.created_at
    is_next = ids[1:] == ids[:-1]
    differs = is_next & (moments[1:] != moments[:-1])
    retained = judged.verdicts[1:] == RowVerdict.RETAINED
    return np.unique(ids[1:][differs & retained])


def _anywhere(ids: Ids, flags: Flags) -> Flags:
    """Which rows belong to an object one of whose rows is flagged."""
    _, places = np.unique(ids, return_inverse=True)
    found = np.zeros(places.max() + 1, np.bool_)
    found[places[flags]] = True
    every: Flags = found[places]
    return every
