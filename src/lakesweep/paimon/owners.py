"""What keeps files of a table: every snapshot, tag and changelog, with the lists that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.errors import DamagedError, MissingError
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import HINTS, Branch, Numbered, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.store import ObjectInfo


class Role(StrEnum):
    """What the manifests of a list are to their owner."""

    BASE = "base"
    DELTA = "delta"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class ManifestList:
    """A list that an owner names, with the size that it says, and whether the owner needs it."""

    name: str
    size_bytes: int | None
    role: Role
    needed: bool


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """The file of an owner as a listing showed it. `kind` is one of snapshot, tag, changelog-meta.

    Another commit under the same name has another `info`.
    """

    kind: Kind
    branch: Branch
    name: str
    info: ObjectInfo

    @property
    def path(self) -> str:
        return self.branch.table.address.base + self.info.key

    @property
    def number(self) -> int:
        """The number of a snapshot or a changelog."""
        return int(self.name)

    def read(self) -> Owner:
        """The owner; MissingError where it went away."""
        match self.kind:
            case Kind.TAG:
                return Owner(self, self.branch.tag(self.name).snapshot)
            case Kind.CHANGELOG_META:
                return Owner(self, self.branch.changelog(self.number))
            case _:
                return Owner(self, self.branch.snapshot(self.number))


@dataclass(frozen=True, slots=True)
class Owner:
    """A snapshot, a tag or a changelog that was read."""

    file: OwnerFile
    snapshot: Snapshot

    @property
    def kind(self) -> Kind:
        return self.file.kind

    @property
    def branch(self) -> Branch:
        return self.file.branch

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def needs_state(self) -> bool:
        """Whether nobody can read it without its files of data and of indexes.

        A changelog lives on when its snapshot has gone, and with it what only the snapshot needed.
        """
        return self.kind is not Kind.CHANGELOG_META

    def lists(self) -> tuple[ManifestList, ...]:
        """The lists that it names."""
        it, state = self.snapshot, self.needs_state
        # Nobody reads the changes of a tag: Paimon deletes them with the snapshot.
        changes = self.kind is not Kind.TAG
        found = (
            (it.base_manifest_list, it.base_manifest_list_size, Role.BASE, state),
            (it.delta_manifest_list, it.delta_manifest_list_size, Role.DELTA, state),
            (it.changelog_manifest_list, it.changelog_manifest_list_size, Role.CHANGELOG, changes),
        )
        return tuple(
            ManifestList(name, size, role, needed) for name, size, role, needed in found if name
        )

    def exists(self) -> bool:
        """Whether its file is still there."""
        return self.branch.table.exists(self.path)


def list_owner_files(table: PaimonTable) -> list[OwnerFile]:
    """Those of all branches. Any error of a listing is raised: nobody may be overlooked."""
    return [file for branch in table.branches() for file in list_branch(branch)]


def list_branch(branch: Branch) -> list[OwnerFile]:
    """Those of one branch; DamagedError where it lost all its snapshots.

    A branch that was never committed to has no snapshot, and no hint either.
    """
    snapshots = branch.snapshot_files()
    hint = next((name for name in HINTS if name in snapshots.others), None)
    if hint is not None and not snapshots.files:
        path = branch.table.address.base + snapshots.others[hint].key
        raise DamagedError(path, "tells of snapshots, and there is none")
    return list(_files(branch, snapshots))


def read_owners(files: Iterable[OwnerFile], *, workers: int = 16) -> Iterator[Owner]:
    """The owners behind files. One that went away since it was listed is none."""
    for owner in map_ordered(read_owner, files, workers=workers):
        if owner is not None:
            yield owner


def _files(branch: Branch, snapshots: Numbered) -> Iterator[OwnerFile]:
    for name, info in branch.tag_files().items():
        yield OwnerFile(Kind.TAG, branch, name, info)
    for number, info in snapshots.files.items():
        yield OwnerFile(Kind.SNAPSHOT, branch, str(number), info)
    for number, info in branch.changelog_files().files.items():
        yield OwnerFile(Kind.CHANGELOG_META, branch, str(number), info)


def read_owner(file: OwnerFile) -> Owner | None:
    """The owner behind a file; None where it went away since it was listed."""
    try:
        return file.read()
    except MissingError:
        return None
