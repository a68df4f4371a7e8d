"""The names of all files a table references, proved to be complete.

A file is an orphan only if every owner was read. Owners of all branches are read until a new
listing shows no other ones. A missing list or manifest is an error unless its owner has been
deleted meanwhile. Later calls read only new owners, and only manifests that are new in them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.hashing import HashSet, hash_names
from lakesweep.marks.unreadable import Strict
from lakesweep.paimon.manifests.named_files import names_of
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.owners import (
    OwnerFile,
    check_empty_branches,
    list_names,
    list_owner_files,
    settle,
)
from lakesweep.paimon.reach.walk import PaimonWalk
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.object_store import ObjectInfo


class UsedNames:
    """The names of all files that a table uses.

    Names are compared without folders, as in Paimon itself: an entry may mean another path after
    an option was changed or a folder was moved, and a file of that name is kept anywhere.
    """

    def __init__(self, table: PaimonTable, progress: Progress = SILENT) -> None:
        self._table = table
        self._progress = progress
        self._names = HashSet()
        self._owners: set[ObjectInfo] = set()
        self._lists: set[str] = set()
        self._is_checked = False
        self._manifests: set[Hashable] = set()

    def look(self) -> None:
        """Read the owners that are not known yet, until a new listing shows no other ones."""
        settle(self._table, self._read_new)

    def _read_new(self) -> bool:
        """Whether nothing was new."""
        files = list_owner_files(self._table)
        if all(file.info in self._owners for file in files):
            self._check_branches(files)
            return True
        self._read()
        return False

    def _check_branches(self, files: Sequence[OwnerFile]) -> None:
        """Once, before the first delete: an owner that is deleted later is not lost but expired."""
        if not self._is_checked:
            check_empty_branches(files, self._table, lambda: self._lists)
            self._is_checked = True

    def has(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of these paths have names that are used."""
        return self._names.contains(hash_names(paths))

    def forget(self) -> None:
        """Forget all names so far; from now on only those of new owners are known."""
        self._names = HashSet()

    def _read(self) -> None:
        # A copy: a manifest is known only once all names in it are.
        manifests = set(self._manifests)
        walk = PaimonWalk(
            self._table,
            Strict(),
            self._table.read_workers,
            known_owners=self._owners,
            known_manifests=manifests,
            named=names_of,
        )
        with self._progress.task("used") as task:
            for batch in walk.files():
                self._names.add(hash_names(batch["path"]))
                task.advance(batch.num_rows)
        self._owners.update(owner.file.info for owner in walk.owners)
        self._lists |= list_names(walk.owners)
        self._manifests = manifests
