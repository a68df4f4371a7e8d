"""How the roots of each kind are followed: which levels lead from their own files to all others.

A level reads pointers of one kind, and may lead to pointers of any kind that a later level reads.
Roots of kinds that share their levels are followed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from lakesweep.iceberg import marking as iceberg
from lakesweep.iceberg.kinds import Kind as IcebergKind
from lakesweep.lakefs import marking as lakefs
from lakesweep.paimon import marking as paimon
from lakesweep.paimon.kinds import Kind as PaimonKind
from lakesweep.storage.keyring import Keyring
from lakesweep.storage.stores import Stores
from lakesweep.sweep.mark_sink import Level
from lakesweep.sweep.paimon_roots import GoneOwners
from lakesweep.sweep.roots import Excuses, RootKind, RootRow


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """One level: who reads, and which of the pointers that the levels above lead to.

    What is read by a level that is `immutable` never changes, and neither does what it names: what
    was read once, for this run or an earlier one, is not read again.
    """

    kind: str
    level: Callable[[Keyring], Level]
    immutable: bool = False


#: From the roots' own files down; the first level reads these, whatever their kinds.
Levels: TypeAlias = tuple[LevelSpec, ...]


@dataclass(frozen=True, slots=True)
class Descent:
    """The kind of a root's own file, and what leads down from there.

    `excuses` is asked of files that are missing: it gets the root, and the numbers of the sources
    that its own file leads to.
    """

    own: str
    levels: Levels
    excuses: Callable[[Stores, RootRow, AbstractSet[int]], Excuses] | None = None


_ICEBERG = (
    LevelSpec(IcebergKind.METADATA, iceberg.MetadataLevel),
    LevelSpec(IcebergKind.MANIFEST_LIST, iceberg.ListLevel),
    LevelSpec(IcebergKind.MANIFEST, iceberg.ManifestLevel, immutable=True),
)

_PAIMON = (
    LevelSpec(PaimonKind.SCHEMA, paimon.TableLevel),
    LevelSpec(PaimonKind.SNAPSHOT, paimon.OwnerLevel),
    LevelSpec(PaimonKind.TAG, paimon.OwnerLevel),
    LevelSpec(PaimonKind.CHANGELOG_META, paimon.OwnerLevel),
    LevelSpec(PaimonKind.MANIFEST_LIST, paimon.ListLevel),
    LevelSpec(PaimonKind.MANIFEST, paimon.ManifestLevel, immutable=True),
    LevelSpec(PaimonKind.INDEX_MANIFEST, paimon.IndexLevel),
)

_LAKEFS = (
    LevelSpec(lakefs.Kind.STATE, lakefs.StateLevel),
    LevelSpec(lakefs.Kind.STAGED, lakefs.StagedLevel),
    LevelSpec(lakefs.Kind.METARANGE, lakefs.MetarangeLevel),
    LevelSpec(lakefs.Kind.RANGE, lakefs.RangeLevel, immutable=True),
)

#: Of every kind of root that is more than a list of folders.
DESCENTS: Mapping[RootKind, Descent] = {
    RootKind.ICEBERG_TABLE: Descent(IcebergKind.METADATA, _ICEBERG),
    RootKind.ICEBERG_VIEW: Descent(IcebergKind.VIEW_METADATA, _ICEBERG),
    RootKind.PAIMON_TABLE: Descent(PaimonKind.SCHEMA, _PAIMON, GoneOwners),
    RootKind.LAKEFS: Descent(lakefs.Kind.STATE, _LAKEFS),
}
