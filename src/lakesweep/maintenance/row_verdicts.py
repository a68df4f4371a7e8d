"""Judge rows of objects, and delete those that nothing references.

A row is deleted only if it is still as the scan found it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from sys import maxsize
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.clock import Clock
from lakesweep.errors import DamagedRowError, StoreError, UnknownOutcomeError, UnreachableError
from lakesweep.hashing.bloom_filter import BloomFilter
from lakesweep.maintenance.live_filters import contained, id_hashes
from lakesweep.maintenance.run_records import MaintenanceStats
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import HeadPage, Ids, ObjectHead, ObjectRow, RowKey
from lakesweep.store.objects.objects import parse_row

Flags: TypeAlias = npt.NDArray[np.bool_]
TRIES = 4
_PAUSE_SECONDS = 0.5


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


class DeletedRows(NamedTuple):
    """The outcome for some rows: the rest was changed or deleted by another process."""

    purged: int
    failed: int


@dataclass(frozen=True, slots=True)
class RowDeleter:
    """Deletes rows of one realm. `look` is called before each batch, and raises to stop it."""

    backend: Backend
    realm: str
    batch_rows: int
    clock: Clock
    look: Callable[[], None]

    def delete(self, heads: Sequence[ObjectHead]) -> DeletedRows:
        """Delete rows, all of one object in one call. What fails is counted, and stays."""
        purged = failed = 0
        for batch in object_batches(heads, self.batch_rows):
            self.look()
            try:
                purged += self._delete(batch)
            except StoreError:
                failed += len(batch)
        return DeletedRows(purged, failed)

    def _delete(self, batch: Sequence[ObjectHead]) -> int:
        in_doubt = False
        for left in reversed(range(TRIES)):
            try:
                deleted = self.backend.delete_expected(self.realm, batch)
                return self._count_gone(batch) if in_doubt else deleted
            except (UnknownOutcomeError, UnreachableError) as error:
                in_doubt |= isinstance(error, UnknownOutcomeError)
                if not left:
                    raise
                self.clock.sleep(_PAUSE_SECONDS * 2 ** (TRIES - left))
                self.look()
        raise AssertionError("the last try returns or raises")

    def _count_gone(self, batch: Sequence[ObjectHead]) -> int:
        """How many rows no longer exist, after an attempt with an unknown outcome."""
        keys = [RowKey(head.id, head.part) for head in batch]
        return len(keys) - len(self.backend.fetch(self.realm, keys))


def object_batches(heads: Sequence[ObjectHead], rows: int) -> Iterator[Sequence[ObjectHead]]:
    """Batches of about this many rows; the rows of one object stay together."""
    start = 0
    while start < len(heads):
        end = min(start + rows, len(heads))
        while end < len(heads) and heads[end].id == heads[end - 1].id:
            end += 1
        yield heads[start:end]
        start = end


def orphan_parts(backend: Backend, realm: str, judged: JudgedRows) -> Sequence[ObjectHead]:
    """Rows beyond the last part of objects that stay, left over from a longer write before.

    They are looked for only where the rows of an object come from different moments.
    """
    doubtful = mixed_writes(judged)
    if not len(doubtful):
        return []
    firsts = backend.fetch(realm, [RowKey(int(number)) for number in doubtful])
    parts = {key.id: _parts(row) for key, row in firsts.items()}
    found = judged.heads(np.isin(judged.page.ids, doubtful))
    return [head for head in found if head.part >= parts.get(head.id, maxsize)]


def _parts(row: ObjectRow) -> int:
    """In how many parts an object lies; endlessly many where its first row cannot be read."""
    try:
        return parse_row(row).parts
    except DamagedRowError:
        return maxsize
