"""Scan the references of one realm, and delete those that nothing retains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lakesweep.errors import StoreError
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits
from lakesweep.maintenance.live_filters import GrowingFilter, name_hashes
from lakesweep.maintenance.run_records import MaintenanceStats
from lakesweep.storage.wrappers.rate_limit import TokenBucket
from lakesweep.store import Realm
from lakesweep.store.backends.rows import Reference, batches

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ReferenceScan:
    """Judges the references of a realm, and deletes unused ones if `deletes` is set.

    Only references that an identifier `owns` and does not retain are deleted.
    """

    realm: Realm
    marks: GrowingFilter
    cut_off_at: int
    owns: Callable[[str], bool]
    newcomers: ConcurrentCommits
    look: Callable[[], None]
    limit: TokenBucket | None
    page: int
    deletes: bool

    def run(self) -> MaintenanceStats:
        """Look at all of them."""
        stats = MaintenanceStats()
        for page in batches(self.realm.references.list(), min(self.page, _PAGE)):
            if self.limit is not None:
                self.limit.take(len(page))
            stats += self._handled(page)
        return stats

    def _handled(self, page: Sequence[Reference]) -> MaintenanceStats:
        is_newer = np.array([each.created_at > self.cut_off_at for each in page])
        stays = self.marks.contains(name_hashes(self.realm.name, [each.name for each in page]))
        stays |= np.array([not self.owns(each.name) for each in page])
        unwanted = [page[place] for place in np.flatnonzero(~stays & ~is_newer).tolist()]
        purged, failed = self._delete(unwanted) if self.deletes else (0, 0)
        return MaintenanceStats(
            scanned=len(page),
            retained=int(np.count_nonzero(stays & ~is_newer)),
            newer=int(np.count_nonzero(is_newer)),
            unreferenced=len(unwanted),
            purged=purged,
            failed=failed,
        )

    def _delete(self, unwanted: Sequence[Reference]) -> tuple[int, int]:
        purged = failed = 0
        if unwanted:
            self.newcomers.check()
        for reference in unwanted:
            self.look()
            try:
                # One that was moved since is not deleted.
                purged += self.realm.references.delete(reference)
            except StoreError:
                failed += 1
        return purged, failed
