"""Delete unreferenced rows, each only if it is still as the scan found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import NamedTuple

import numpy as np

from lakesweep.clock import Clock
from lakesweep.errors import DamagedRowError, StoreError, UnknownOutcomeError, UnreachableError
from lakesweep.maintenance.row_verdicts import JudgedRows, mixed_writes
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectHead, ObjectRow, RowKey
from lakesweep.store.objects.objects import parse_row

TRIES = 4
_PAUSE_SECONDS = 0.5


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
