"""What keeps files of a table: every snapshot, tag and changelog, with the lists that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.errors import DamagedError, IncompleteError, MissingError
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.lost_commits import check_commits
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import HINTS, Branch, Numbered, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.store import ObjectInfo

_MOST_PASSES = 20


class Role(StrEnum):
    """What the manifests of a list are to their owner."""

    BASE = "base"
    DELTA = "delta"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class ManifestList:
    """A list that an owner names, with the size that it says, and whether the owner needs it.

    `least` is how many manifests it must name, as far as the rows tell that the owner counts.
    """

    name: str
    size_bytes: int | None
    role: Role
    needed: bool
    least: int


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
        """Whether nobody can read it without its files of data and of indexes."""
        return needs_state(self.kind)

    @property
    def least_indexes(self) -> int:
        """How many index files its index manifest must name, if it has one."""
        return self.branch.layout.least_indexes(self.snapshot.total_record_count)

    def lists(self) -> tuple[ManifestList, ...]:
        """The lists that it names."""
        return lists_of(self.kind, self.snapshot)

    def exists(self) -> bool:
        """Whether its file is still there."""
        return self.branch.table.exists(self.path)


def needs_state(kind: Kind) -> bool:
    """Whether nobody can read an owner of this kind without its files of data and of indexes.

    A changelog lives on when its snapshot has gone, and with it what only the snapshot needed.
    """
    return kind is not Kind.CHANGELOG_META


def lists_of(kind: Kind, it: Snapshot) -> tuple[ManifestList, ...]:
    """The lists that an owner of a kind names."""
    state = needs_state(kind)
    # Nobody reads the changes of a tag: Paimon deletes them with the snapshot.
    changes = kind is not Kind.TAG
    found = (
        (it.base_manifest_list, it.base_manifest_list_size, Role.BASE, state, it.base_rows),
        (it.delta_manifest_list, it.delta_manifest_list_size, Role.DELTA, state, it.delta_rows),
        (it.changelog_manifest_list, it.changelog_manifest_list_size, Role.CHANGELOG, changes, 0),
    )
    return tuple(
        ManifestList(name, size, role, needed, least=int(rows != 0))
        for name, size, role, needed, rows in found
        if name
    )


def list_owner_files(table: PaimonTable) -> list[OwnerFile]:
    """Those of all branches. Any error of a listing is raised: nobody may be overlooked."""
    return [file for branch in table.branches() for file in list_settled(branch)]


def list_branch(branch: Branch) -> list[OwnerFile]:
    """Those of one branch; DamagedError where it lost all its snapshots, or is no branch.

    A branch that was never committed to has no snapshot, and no hint, tag or changelog, nor a
    consumer that has read one. But each has a schema: a folder without one holds a branch whose
    name has a `/`, or lost it.
    """
    if not branch.schema_files().files:
        raise DamagedError(
            f"{branch.table.address.path}{branch.folder}",
            "holds no schema, so that what it keeps is not known",
        )
    snapshots = branch.snapshot_files()
    files = list(_files(branch, snapshots))
    if not snapshots.files:
        hints = [snapshots.others[name] for name in HINTS if name in snapshots.others]
        for info in (*hints, *(file.info for file in files), *_consumers(branch)):
            path = branch.table.address.base + info.key
            raise DamagedError(path, "tells of snapshots, and there is none")
        if branch is branch.table.main:
            check_commits(branch, named=frozenset())
    return files


def _consumers(branch: Branch) -> list[ObjectInfo]:
    """The files of consumers that have read a snapshot."""
    files = branch.consumer_files()
    return [files[each.name] for each in branch.consumers() if each.next_snapshot > 1]


def check_empty_branches(
    files: Iterable[OwnerFile], table: PaimonTable, named: Callable[[], AbstractSet[str]]
) -> None:
    """DamagedError where a branch has no snapshot among all `files`, and may have lost them.

    For who deletes what nobody names; `named` are the lists that are named by all owners.
    """
    committed = {file.branch.name for file in files if file.kind is Kind.SNAPSHOT}
    for branch in table.branches()[1:]:  # of the main one that is always looked at
        if branch.name not in committed:
            check_commits(branch, named())


def list_names(owners: Iterable[Owner]) -> set[str]:
    """The lists that owners name."""
    return {each.name for owner in owners for each in owner.lists()}


def list_settled(branch: Branch) -> list[OwnerFile]:
    """Those of one branch, and the newest snapshot that its hint tells of among them.

    The hint follows a commit, and goes back before a rollback does: DamagedError where it tells of
    a snapshot that is not there, for then the newest were lost.
    """
    for _ in range(_MOST_PASSES):
        files = list_branch(branch)
        newest = max((file.number for file in files if file.kind is Kind.SNAPSHOT), default=None)
        if newest is None or not _is_behind(branch, newest):
            return files
    raise IncompleteError(
        f"{branch.table.address.path} changes faster than it can be listed",
        hint="run the same command again when fewer writers are at work",
    )


def _is_behind(branch: Branch, newest: int) -> bool:
    hint = branch.hint("snapshot", "LATEST")
    if hint is None or hint <= newest:
        return False
    if branch.has_snapshot(hint) or branch.hint("snapshot", "LATEST") != hint:
        return True  # a commit came, or a rollback
    path = branch.layout.hint("snapshot", "LATEST")
    raise DamagedError(
        path,
        f"tells of snapshot {hint}, and the newest is {newest}",
        hint=f"bring back what was lost, or delete {path} if nothing was",
    )


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
