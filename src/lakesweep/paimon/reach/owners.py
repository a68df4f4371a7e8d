"""File owners: every snapshot, tag and changelog, with the manifest lists it names.

Listing fails closed. A branch without snapshots is damaged, not empty, if a hint, a tag, a
consumer or an unnamed manifest list proves a commit. A missing manifest is not an error if the
last owner that needed it has expired meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lakesweep.errors import DamagedError, IncompleteError, LakesweepError, MissingError
from lakesweep.paimon.manifests.named_files import manifests_of
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import HINTS, NumberedFiles, PaimonBranch, PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.object_store import ObjectInfo

_MOST_PASSES = 20


class ListRole(StrEnum):
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
    role: ListRole
    needed: bool
    least: int


@dataclass(frozen=True, slots=True)
class OwnerFile:
    """The file of an owner as a listing showed it. `kind` is one of snapshot, tag, changelog-meta.

    Another commit under the same name has another `info`.
    """

    kind: PaimonKind
    branch: PaimonBranch
    name: str
    info: ObjectInfo

    @property
    def path(self) -> str:
        return self.branch.table.address.base + self.info.key

    @property
    def number(self) -> int:
        """The number of a snapshot or a changelog."""
        return int(self.name)

    def read(self) -> FileOwner:
        """The owner; MissingError if it was deleted."""
        match self.kind:
            case PaimonKind.TAG:
                return FileOwner(self, self.branch.tag(self.name).snapshot)
            case PaimonKind.CHANGELOG_META:
                return FileOwner(self, self.branch.changelog(self.number))
            case _:
                return FileOwner(self, self.branch.snapshot(self.number))


@dataclass(frozen=True, slots=True)
class FileOwner:
    """A snapshot, a tag or a changelog that was read."""

    file: OwnerFile
    snapshot: PaimonSnapshot

    @property
    def kind(self) -> PaimonKind:
        return self.file.kind

    @property
    def branch(self) -> PaimonBranch:
        return self.file.branch

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def needs_state(self) -> bool:
        """Whether reading it needs its data and index files."""
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


def needs_state(kind: PaimonKind) -> bool:
    """Whether reading an owner of this kind needs its data and index files.

    A changelog outlives its snapshot, and the files that only the snapshot needed.
    """
    return kind is not PaimonKind.CHANGELOG_META


def lists_of(kind: PaimonKind, it: PaimonSnapshot) -> tuple[ManifestList, ...]:
    """The lists that an owner of a kind names."""
    state = needs_state(kind)
    # The changelog list of a tag is never read: Paimon deletes it with the snapshot.
    changes = kind is not PaimonKind.TAG
    found = (
        (it.base_manifest_list, it.base_manifest_list_size, ListRole.BASE, state, it.base_rows),
        (it.delta_manifest_list, it.delta_manifest_list_size, ListRole.DELTA, state, it.delta_rows),
        (
            it.changelog_manifest_list,
            it.changelog_manifest_list_size,
            ListRole.CHANGELOG,
            changes,
            0,
        ),
    )
    return tuple(
        ManifestList(name, size, role, needed, least=int(rows != 0))
        for name, size, role, needed, rows in found
        if name
    )


def list_owner_files(table: PaimonTable) -> list[OwnerFile]:
    """Those of all branches. Any listing error is raised: no owner may be overlooked."""
    return [file for branch in table.branches() for file in list_settled(branch)]


def list_branch(branch: PaimonBranch) -> list[OwnerFile]:
    """Those of one branch; DamagedError if it lost all its snapshots, or is no branch.

    A branch that was never committed to has no snapshot, and no hint, tag or changelog, nor a
    consumer that has read one. But each has a schema: a folder without one holds a branch whose
    name has a `/`, or lost it.
    """
    if not branch.schema_files().files:
        raise DamagedError(
            f"{branch.table.address.path}{branch.folder}",
            "holds no schema, so it is unknown which files it uses",
        )
    snapshots = branch.snapshot_files()
    files = list(_files(branch, snapshots))
    if not snapshots.files:
        hints = [snapshots.others[name] for name in HINTS if name in snapshots.others]
        for info in (*hints, *(file.info for file in files), *_consumers(branch)):
            path = branch.table.address.base + info.key
            raise DamagedError(path, "refers to snapshots, but there are none")
        if branch is branch.table.main:
            check_commits(branch, named=frozenset())
    return files


def _consumers(branch: PaimonBranch) -> list[ObjectInfo]:
    """The files of consumers that have read a snapshot."""
    files = branch.consumer_files()
    return [files[each.name] for each in branch.consumers() if each.next_snapshot > 1]


def check_empty_branches(
    files: Iterable[OwnerFile], table: PaimonTable, named: Callable[[], AbstractSet[str]]
) -> None:
    """DamagedError if a branch has no snapshot among all `files`, and may have lost them.

    For callers that delete unnamed files; `named` are the lists that all owners name.
    """
    committed = {file.branch.name for file in files if file.kind is PaimonKind.SNAPSHOT}
    for branch in table.branches()[1:]:  # of the main one that is always looked at
        if branch.name not in committed:
            check_commits(branch, named())


def list_names(owners: Iterable[FileOwner]) -> set[str]:
    """The lists that owners name."""
    return {each.name for owner in owners for each in owner.lists()}


def list_settled(branch: PaimonBranch) -> list[OwnerFile]:
    """Those of one branch, with the newest snapshot that its hint refers to.

    The hint is written after a commit, and reset before a rollback. So DamagedError if it refers to
    a snapshot that does not exist: the newest ones were lost.
    """
    files: list[OwnerFile] = []

    def is_listed() -> bool:
        files[:] = list_branch(branch)
        numbers = (file.number for file in files if file.kind is PaimonKind.SNAPSHOT)
        newest = max(numbers, default=None)
        return newest is None or not _is_behind(branch, newest)

    settle(branch.table, is_listed)
    return files


def settle(table: PaimonTable, is_settled: Callable[[], bool]) -> None:
    """Repeat a step until it finds nothing new; IncompleteError if the table keeps changing."""
    if not any(is_settled() for _ in range(_MOST_PASSES)):
        raise IncompleteError(
            f"{table.address.path} changes faster than it can be read",
            hint="run the same command again when fewer writers are active",
        )


def _is_behind(branch: PaimonBranch, newest: int) -> bool:
    hint = branch.hint("snapshot", "LATEST")
    if hint is None or hint <= newest:
        return False
    if branch.has_snapshot(hint) or branch.hint("snapshot", "LATEST") != hint:
        return True  # a commit came, or a rollback
    path = branch.layout.hint("snapshot", "LATEST")
    raise DamagedError(
        path,
        f"refers to snapshot {hint}, but the newest is {newest}",
        hint=f"restore the lost snapshots, or delete {path} if none was lost",
    )


def read_owners(files: Iterable[OwnerFile], *, workers: int = 16) -> Iterator[FileOwner]:
    """The owners behind files. Owners that were deleted since they were listed are left out."""
    for owner in map_ordered(read_owner, files, workers=workers):
        if owner is not None:
            yield owner


def _files(branch: PaimonBranch, snapshots: NumberedFiles) -> Iterator[OwnerFile]:
    for name, info in branch.tag_files().items():
        yield OwnerFile(PaimonKind.TAG, branch, name, info)
    for number, info in snapshots.files.items():
        yield OwnerFile(PaimonKind.SNAPSHOT, branch, str(number), info)
    for number, info in branch.changelog_files().files.items():
        yield OwnerFile(PaimonKind.CHANGELOG_META, branch, str(number), info)


def read_owner(file: OwnerFile) -> FileOwner | None:
    """The owner behind a file; None if it was deleted since it was listed."""
    try:
        return file.read()
    except MissingError:
        return None


_LONGEST_COMMIT = timedelta(hours=1)
_LONGEST_COPY = timedelta(days=1)


def check_commits(branch: PaimonBranch, named: AbstractSet[str]) -> None:
    """DamagedError if a branch without snapshots may have lost them.

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


def _born(branch: PaimonBranch) -> datetime | None:
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


def _lost(branch: PaimonBranch, path: str) -> DamagedError:
    if branch is branch.table.main:
        hint = f"restore the lost snapshots; if nothing was ever committed, delete {path}"
        return DamagedError(path, "belongs to a commit, but there is no snapshot", hint=hint)
    return DamagedError(
        path,
        f"belongs to an unknown commit, and branch {branch.name} has no snapshot",
        hint="restore the lost snapshots; if nothing was ever committed to the branch, drop it",
    )


class RequiredManifests:
    """What owners need of the folder of manifests. Safe to share between threads."""

    def __init__(self, table: PaimonTable, owners: Sequence[FileOwner]) -> None:
        self._table = table
        self._owners = owners
        self._listed: dict[str, frozenset[str] | None] = {}
        self._lock = threading.Lock()

    def is_needed(self, name: str) -> bool:
        """Whether an owner needs the file of this name, and is there at this moment."""
        with self._lock:
            return any(self._needs(owner, name) and owner.exists() for owner in self._owners)

    def _needs(self, owner: FileOwner, name: str) -> bool:
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
