"""Lists of manifests that tell of commits where there is no snapshot.

A branch that lost its folder of snapshots looks like one that was never committed to. But commits
write lists of manifests, and those of lost ones are named by nobody.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from lakesweep.errors import DamagedError, LakesweepError
from lakesweep.paimon.naming import manifests_of
from lakesweep.paimon.table import Branch, PaimonTable
from lakesweep.storage.store import ObjectInfo

_LONGEST_COMMIT = timedelta(hours=1)
_LONGEST_COPY = timedelta(days=1)


def check_commits(branch: Branch, named: AbstractSet[str]) -> None:
    """DamagedError where a branch without snapshots may have lost them.

    It may where there is a list that is not among the `named` ones, was written since the branch
    came to be, and is too old for a first commit that is under way. A commit that failed leaves its
    list behind as well, but it is rarer than it is bad to lose all files of a branch.
    """
    table, born = branch.table, _born(branch)
    before = table.clock.now() - _LONGEST_COMMIT
    for name, info in table.list("manifest").files.items():
        is_unknown = name.startswith("manifest-list-") and name not in named
        if is_unknown and _is_within(info, born, before) and _names_manifests(table, name):
            raise _lost(branch, table.layout.manifest(name))


def _born(branch: Branch) -> datetime | None:
    """When a branch came to be, or earlier; None of the main one, whose first schema may be gone.

    A copy of a table is written in any order, within a day.
    """
    if branch is branch.table.main:
        return None
    moments = [info.modified for info in branch.schema_files().files.values()]
    known = [moment - _LONGEST_COPY for moment in moments if moment is not None]
    return min(known, default=None)


def _is_within(info: ObjectInfo, born: datetime | None, before: datetime) -> bool:
    if info.modified is None:
        return False
    return info.modified < before and (born is None or info.modified >= born)


def _names_manifests(table: PaimonTable, name: str) -> bool:
    try:
        return bool(manifests_of(table, name))
    except LakesweepError:  # it is no list, or has gone
        return False


def _lost(branch: Branch, path: str) -> DamagedError:
    if branch is branch.table.main:
        hint = f"bring back what was lost; if nothing was ever committed, delete {path}"
        return DamagedError(path, "tells of a commit, and there is no snapshot", hint=hint)
    return DamagedError(
        path,
        f"tells of a commit that nobody knows, and branch {branch.name} has no snapshot",
        hint="bring back what was lost; if nothing was ever committed to the branch, drop it",
    )
