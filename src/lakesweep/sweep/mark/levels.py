"""The levels of each kind of root: the readers that lead from its own file to all others.

A level reads pointers of one kind, and may yield pointers of any kind that a later level
reads. Kinds of roots that share their levels are followed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakesweep.iceberg import mark_levels as iceberg
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.lakefs import mark_levels as lakefs
from lakesweep.marks.file_level import Levels
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.reach import mark_levels as paimon
from lakesweep.storage.stores import Stores
from lakesweep.sweep.roots.paimon import ExpiredOwners
from lakesweep.sweep.roots.root import MissingFileTolerance, RootKind, RootRow


@dataclass(frozen=True, slots=True)
class RootLevels:
    """The kind of a root's own file, and the levels below it.

    `excuses` decides about missing files: it is given the root, and the numbers of the sources that
    its own file links to.
    """

    own: str
    levels: Levels
    excuses: Callable[[Stores, RootRow, AbstractSet[int]], MissingFileTolerance] | None = None


#: For every kind of root that is more than a list of folders.
ROOT_LEVELS: Mapping[RootKind, RootLevels] = {
    RootKind.ICEBERG_TABLE: RootLevels(IcebergKind.METADATA, iceberg.ICEBERG_LEVELS),
    RootKind.ICEBERG_VIEW: RootLevels(IcebergKind.VIEW_METADATA, iceberg.ICEBERG_LEVELS),
    RootKind.PAIMON_TABLE: RootLevels(PaimonKind.SCHEMA, paimon.PAIMON_LEVELS, ExpiredOwners),
    RootKind.LAKEFS: RootLevels(lakefs.RepositoryFileKind.STATE, lakefs.LAKEFS_LEVELS),
}
