"""The files that keep others alive: snapshots, tags and changelogs of all branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import Branch, PaimonTable
from lakesweep.storage.store import ObjectInfo


class OwnerKind(StrEnum):
    """What a file stands for."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """One such file as a listing showed it. Another commit under the same name is another one."""

    branch: Branch
    kind: OwnerKind
    name: str
    info: ObjectInfo

    @property
    def path(self) -> str:
        return self.branch.table.address.base + self.info.key

    @property
    def number(self) -> int:
        """The number of a snapshot or a changelog."""
        return int(self.name)

    def read(self) -> Snapshot:
        """What the file says; MissingError where it went away."""
        match self.kind:
            case OwnerKind.SNAPSHOT:
                return self.branch.snapshot(self.number)
            case OwnerKind.CHANGELOG:
                return self.branch.changelog(self.number)
            case OwnerKind.TAG:
                return self.branch.tag(self.name).snapshot


def list_owner_files(table: PaimonTable) -> list[OwnerFile]:
    """All of them. Any error of a listing is raised: nobody may be overlooked."""
    return [file for branch in table.branches() for file in _of_branch(branch)]


def _of_branch(branch: Branch) -> Iterator[OwnerFile]:
    for name, info in branch.tag_files().items():
        yield OwnerFile(branch, OwnerKind.TAG, name, info)
    for number, info in branch.snapshot_files().files.items():
        yield OwnerFile(branch, OwnerKind.SNAPSHOT, str(number), info)
    for number, info in branch.changelog_files().files.items():
        yield OwnerFile(branch, OwnerKind.CHANGELOG, str(number), info)
