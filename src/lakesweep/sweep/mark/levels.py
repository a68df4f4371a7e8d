"""The levels of each kind of root: which readers lead from its own file to all others.

A level reads pointers of one kind, and may yield pointers of any kind that a later level
reads. Kinds of roots that share their levels are followed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from lakesweep.iceberg import mark_levels as iceberg
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.lakefs import mark_levels as lakefs
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.reach import mark_levels as paimon
from lakesweep.storage.stores import Keyring, Stores
from lakesweep.sweep.mark.mark_sink import LevelReader
from lakesweep.sweep.roots.paimon import ExpiredOwners
from lakesweep.sweep.roots.root import MissingFileTolerance, RootKind, RootRow


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """One level: who reads, and which of the pointers that the levels above lead to.

    What is read by a level that is `immutable` never changes, and neither does what it names: what
    was read once, for this run or an earlier one, is not read again.
    """

    kind: str
    level: Callable[[Keyring], LevelReader]
    immutable: bool = False


#: From the roots' own files down; the first level reads these, whatever their kinds.
Levels: TypeAlias = tuple[LevelSpec, ...]


@dataclass(frozen=True, slots=True)
class RootLevels:
    """The kind of a root's own file, and what leads down from there.

    `excuses` is asked of files that are missing: it gets the root, and the numbers of the sources
    that its own file leads to.
    """

    own: str
    levels: Levels
    excuses: Callable[[Stores, RootRow, AbstractSet[int]], MissingFileTolerance] | None = None


_ICEBERG = (
    LevelSpec(IcebergKind.METADATA, iceberg.IcebergMetadataLevel),
    LevelSpec(IcebergKind.MANIFEST_LIST, iceberg.IcebergListLevel),
    LevelSpec(IcebergKind.MANIFEST, iceberg.IcebergManifestLevel, immutable=True),
)

_PAIMON = (
    LevelSpec(PaimonKind.SCHEMA, paimon.PaimonTableLevel),
    LevelSpec(PaimonKind.SNAPSHOT, paimon.PaimonOwnerLevel),
    LevelSpec(PaimonKind.TAG, paimon.PaimonOwnerLevel),
    LevelSpec(PaimonKind.CHANGELOG_META, paimon.PaimonOwnerLevel),
    LevelSpec(PaimonKind.MANIFEST_LIST, paimon.PaimonListLevel),
    LevelSpec(PaimonKind.MANIFEST, paimon.PaimonManifestLevel, immutable=True),
    LevelSpec(PaimonKind.INDEX_MANIFEST, paimon.PaimonIndexLevel),
)

_LAKEFS = (
    LevelSpec(lakefs.RepositoryFileKind.STATE, lakefs.StateLevel),
    LevelSpec(lakefs.RepositoryFileKind.STAGED, lakefs.StagedLevel),
    LevelSpec(lakefs.RepositoryFileKind.METARANGE, lakefs.MetarangeLevel),
    LevelSpec(lakefs.RepositoryFileKind.RANGE, lakefs.RangeLevel, immutable=True),
)

#: Of every kind of root that is more than a list of folders.
ROOT_LEVELS: Mapping[RootKind, RootLevels] = {
    RootKind.ICEBERG_TABLE: RootLevels(IcebergKind.METADATA, _ICEBERG),
    RootKind.ICEBERG_VIEW: RootLevels(IcebergKind.VIEW_METADATA, _ICEBERG),
    RootKind.PAIMON_TABLE: RootLevels(PaimonKind.SCHEMA, _PAIMON, ExpiredOwners),
    RootKind.LAKEFS: RootLevels(lakefs.RepositoryFileKind.STATE, _LAKEFS),
}
