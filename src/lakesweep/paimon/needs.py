"""Whether somebody still needs a file that is not there.

While a table is read its owners go away: snapshots expire, tags are deleted. A list or a manifest
that went with the last of them is no loss. One that an owner needs which is still there is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from lakesweep.errors import MissingError
from lakesweep.paimon.naming import manifests_of
from lakesweep.paimon.owners import Owner
from lakesweep.paimon.table import PaimonTable


class Needs:
    """What owners need of the folder of manifests. Safe to share between threads."""

    def __init__(self, table: PaimonTable, owners: Sequence[Owner]) -> None:
        self._table = table
        self._owners = owners
        self._listed: dict[str, frozenset[str] | None] = {}
        self._lock = threading.Lock()

    def is_needed(self, name: str) -> bool:
        """Whether an owner needs the file of this name, and is there at this moment."""
        with self._lock:
            return any(self._needs(owner, name) and owner.exists() for owner in self._owners)

    def _needs(self, owner: Owner, name: str) -> bool:
        lists = {each.name for each in owner.lists() if each.needed}
        if name in lists or (owner.needs_state and name == owner.snapshot.index_manifest):
            return True
        manifests = [self._manifests(each) for each in lists]
        # What a list named that is gone is not known, so it may have been this very file.
        return any(names is None or name in names for names in manifests)

    def _manifests(self, name: str) -> frozenset[str] | None:
        if name not in self._listed:
            try:
                found = manifests_of(self._table, name)
                self._listed[name] = frozenset(each.name for each in found)
            except MissingError:
                self._listed[name] = None
        return self._listed[name]
