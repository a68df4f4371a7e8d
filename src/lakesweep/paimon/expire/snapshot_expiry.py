"""Expire snapshots, and changelogs that outlived their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

import pyarrow as pa

from lakesweep.errors import ChangedError, MissingError
from lakesweep.paimon.expire.candidates import Garbage
from lakesweep.paimon.expire.retention import (
    RetentionLimits,
    first_kept_changelog,
    first_kept_snapshot,
    is_decoupled,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.snapshots import encode_snapshot
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.reach.claims import OwnerClaim, writes_changelogs
from lakesweep.paimon.reach.owners import FileOwner, OwnerFile, read_owners
from lakesweep.storage.address import parse

_ATTEMPTS = 10

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class RemovedOwners:
    """Snapshots or changelogs that an expiry removes: all before `earliest`, which stays.

    `hint` is what `LATEST` said when they were chosen.
    """

    branch: PaimonBranch
    leaving: tuple[FileOwner, ...]
    earliest: int | None
    hint: int | None


@dataclass(frozen=True)
class SnapshotExpiry:
    """The snapshots of a branch that expire: all before `following[-1]`, which stays.

    `following` are all after the first of them: their deltas delete what earlier ones held. `hint`
    is what `LATEST` said when they were chosen.
    """

    branch: PaimonBranch
    retention: RetentionLimits
    leaving: tuple[FileOwner, ...]
    following: tuple[FileOwner, ...]
    earliest: int | None
    latest: int | None
    hint: int | None = None

    @property
    def title(self) -> str:
        numbers = [owner.snapshot.id for owner in self.leaving]
        return f"snapshots of {self.branch.name}: {numbers}"

    @property
    def keeps_changelogs(self) -> bool:
        """Whether changelogs outlive their snapshots."""
        return is_decoupled(self.branch.layout.options)

    @property
    def keeps_deltas(self) -> bool:
        """Whether deltas stand in for changelogs, which the table does not write."""
        return self.keeps_changelogs and not writes_changelogs(self.branch.layout.options)

    @property
    def planned(self) -> Sequence[OwnerClaim]:
        return [self._changelog(owner) for owner in self.leaving] if self.keeps_changelogs else []

    def candidates(self) -> Iterator[pa.RecordBatch]:
        garbage = Garbage(self.branch)
        leaving = [owner.snapshot for owner in self.leaving]
        deltas = [owner.snapshot.delta_manifest_list for owner in self.following]
        yield from garbage.deleted_files(deltas, only_compacted=self.keeps_deltas)
        yield from garbage.index_files(leaving)
        if not self.keeps_changelogs:
            yield from garbage.changelog_files(leaving)
        if not self.keeps_deltas:
            yield from garbage.state_lists(leaving)

    def prepare(self) -> Sequence[OwnerFile]:
        files = still_present(self.branch, [owner.file for owner in self.leaving])
        check_expirable(files, choose_snapshots(self.branch, self.retention).leaving)
        self._write_changelogs(files)
        # Before the files: a reader that starts at the hint never finds half a snapshot.
        move_earliest(self.branch, "snapshot", self.branch.snapshot_ids(), files)
        return files

    @property
    def removed(self) -> RemovedOwners:
        return RemovedOwners(self.branch, self.leaving, self.earliest, self.hint)

    def may_leave(self) -> bool:
        return not _is_rolled_back(self.removed, "snapshot", self.branch.snapshot_ids())

    def put_back(self, removed: Sequence[OwnerFile]) -> Sequence[OwnerFile]:
        return put_back_needed(self.removed, "snapshot", removed, consumer_positions(self.branch))

    def _changelog(self, owner: FileOwner) -> OwnerClaim:
        claim = OwnerClaim.of_changelog(owner, with_history=self.keeps_deltas)
        return replace(claim, path=self.branch.layout.changelog(owner.snapshot.id))

    def _write_changelogs(self, files: Sequence[OwnerFile]) -> None:
        if not (files and self.keeps_changelogs):
            return
        table = self.branch.table
        for file in files:
            with suppress(MissingError):  # another run deleted it, and wrote its changelog first
                write_table_file(
                    self.branch, self.branch.layout.changelog(file.number), table.read(file.path)
                )
        if numbers := self.branch.changelog_ids():
            write_hint(self.branch, "changelog", "LATEST", max(numbers))


def choose_snapshots(branch: PaimonBranch, retention: RetentionLimits) -> SnapshotExpiry:
    """The snapshots that may expire. Does not change the table."""
    return retry_if_overtaken(partial(_choose_snapshots, branch, retention))


def retry_if_overtaken(choose: Callable[[], Choice]) -> Choice:
    """Choose owners, again if another run deletes some of them during the choice."""
    for _ in range(_ATTEMPTS):
        with suppress(MissingError):
            return choose()
    return choose()


def _choose_snapshots(branch: PaimonBranch, retention: RetentionLimits) -> SnapshotExpiry:
    hint = branch.hint("snapshot", "LATEST")
    infos = branch.snapshot_files().files
    ids = list(infos)
    read = lru_cache(None)(branch.snapshot)
    end = first_kept_snapshot(
        ids, retention, lambda id_: read(id_).time_millis, consumer_positions(branch)
    )
    files = (OwnerFile(PaimonKind.SNAPSHOT, branch, str(id_), info) for id_, info in infos.items())
    owners = list(read_owners(file for file in files if end is not None and file.number <= end))
    leaving = tuple(owner for owner in owners if owner.file.number != end)
    latest = ids[-1] if ids else None
    return SnapshotExpiry(branch, retention, leaving, tuple(owners[1:]), end, latest, hint)


def consumer_positions(branch: PaimonBranch) -> list[int]:
    """The snapshots that consumers read next, and that therefore must stay."""
    if branch.layout.options.flag("consumer.changelog-only", False):
        return []
    return _next_reads(branch)


def _next_reads(branch: PaimonBranch) -> list[int]:
    return [consumer.next_snapshot for consumer in branch.consumers()]


def still_present(branch: PaimonBranch, files: Sequence[OwnerFile]) -> list[OwnerFile]:
    """The files that still exist and have not changed."""
    there = {*branch.snapshot_files().files.values(), *branch.changelog_files().files.values()}
    there |= set(branch.tag_files().values())
    return [file for file in files if file.info in there]


def check_expirable(files: Sequence[OwnerFile], leaving: Sequence[FileOwner]) -> None:
    """ChangedError if a file may no longer be deleted."""
    may_go = {owner.file.info for owner in leaving}
    for file in files:
        if file.info not in may_go:
            raise ChangedError(
                file.path,
                "may no longer be deleted: the table or its consumers have changed",
                hint="nothing was deleted; run the command again",
            )


def move_earliest(
    branch: PaimonBranch, folder: str, there: Sequence[int], files: Sequence[OwnerFile]
) -> None:
    """Point the hint to the first number that stays; a missing hint is always written."""
    stay = set(there) - {file.number for file in files}
    if stay and (files or branch.hint(folder, "EARLIEST") is None):
        write_hint(branch, folder, "EARLIEST", min(stay))


def _is_rolled_back(expiry: RemovedOwners, folder: str, ids: Sequence[int]) -> bool:
    """Whether the table was rolled back to before the first owner that stays, or is being so.

    A rollback first points `LATEST` to its target and then deletes what is newer. A hint that was
    behind all the time says nothing.
    """
    end = expiry.earliest
    if end is None:
        return False
    hint = expiry.branch.hint(folder, "LATEST")
    is_reset = hint is not None and hint != expiry.hint and hint < end
    return is_reset or not ids or ids[-1] < end


def put_back_needed(
    expiry: RemovedOwners,
    folder: str,
    removed: Sequence[OwnerFile],
    next_reads: Sequence[int],
) -> list[OwnerFile]:
    """Write the removed owners again that are needed after all; returns what was written.

    Only a consumer that came after the last check, or a rollback in that moment, can need one. The
    newest comes first and the hint last, so that a crash leaves no gap before what stayed.
    """
    branch, first = expiry.branch, min(next_reads, default=None)
    ids = branch.snapshot_ids() if folder == "snapshot" else branch.changelog_ids()
    is_rolled_back = _is_rolled_back(expiry, folder, ids)
    target = _rollback_target(expiry, folder, ids, removed) if is_rolled_back else None
    written = []
    for owner in reversed(expiry.leaving):
        number = owner.file.number
        is_read = first is not None and number >= first and not is_rolled_back
        if (is_read or number == target) and owner.file in removed and not owner.exists():
            write_table_file(branch, owner.path, encode_snapshot(owner.snapshot.raw))
            written.append(owner.file)
    there = [*ids, *(file.number for file in written)]
    if there and (written or is_rolled_back):
        write_hint(branch, folder, "EARLIEST", min(there))
    return written


def _rollback_target(
    expiry: RemovedOwners,
    folder: str,
    ids: Sequence[int],
    removed: Sequence[OwnerFile],
) -> int | None:
    """The removed owner that the table was rolled back to."""
    numbers = [file.number for file in removed]
    hint = expiry.branch.hint(folder, "LATEST")
    if hint in numbers:
        return hint
    # A table that has had a snapshot never has none; of changelogs it may.
    if ids or folder != "snapshot":
        return None
    return max((each for each in numbers if hint is None or each <= hint), default=None)


def write_hint(branch: PaimonBranch, folder: str, name: str, number: int) -> None:
    """Write a hint in the folder `snapshot` or `changelog`."""
    write_table_file(branch, branch.layout.hint(folder, name), str(number).encode())


def write_table_file(branch: PaimonBranch, path: str, data: bytes) -> None:
    """Create or replace a file of the table."""
    address = parse(path)
    branch.table.stores.open(address).write(address.key, data)


@dataclass(frozen=True)
class ChangelogExpiry:
    """The changelogs of a branch that expire: all before `earliest`."""

    branch: PaimonBranch
    retention: RetentionLimits
    leaving: tuple[FileOwner, ...]
    earliest: int | None
    latest: int | None
    hint: int | None = None
    planned: Sequence[OwnerClaim] = ()

    @property
    def title(self) -> str:
        numbers = [owner.snapshot.id for owner in self.leaving]
        return f"changelogs of {self.branch.name}: {numbers}"

    def candidates(self) -> Iterator[pa.RecordBatch]:
        garbage = Garbage(self.branch)
        leaving = [owner.snapshot for owner in self.leaving]
        yield from garbage.deleted_files(each.delta_manifest_list for each in leaving)
        yield from garbage.changelog_files(leaving)
        # If the table writes no changelogs, the lists of the snapshots stood in for them.
        yield from garbage.state_lists(leaving)

    def prepare(self) -> Sequence[OwnerFile]:
        files = still_present(self.branch, [owner.file for owner in self.leaving])
        check_expirable(files, choose_changelogs(self.branch, self.retention).leaving)
        move_earliest(self.branch, "changelog", self.branch.changelog_ids(), files)
        return files

    @property
    def removed(self) -> RemovedOwners:
        return RemovedOwners(self.branch, self.leaving, self.earliest, self.hint)

    def may_leave(self) -> bool:
        return not _is_rolled_back(self.removed, "changelog", self.branch.changelog_ids())

    def put_back(self, removed: Sequence[OwnerFile]) -> Sequence[OwnerFile]:
        return put_back_needed(self.removed, "changelog", removed, _next_reads(self.branch))


def choose_changelogs(branch: PaimonBranch, retention: RetentionLimits) -> ChangelogExpiry:
    """The changelogs that may expire. Does not change the table."""
    return retry_if_overtaken(partial(_choose_changelogs, branch, retention))


def _choose_changelogs(branch: PaimonBranch, retention: RetentionLimits) -> ChangelogExpiry:
    hint = branch.hint("changelog", "LATEST")
    infos = branch.changelog_files().files
    ids = list(infos)
    latest = max(branch.snapshot_ids(), default=None)
    if latest is None or not ids:
        return ChangelogExpiry(branch, retention, (), *_ends(ids))
    read = lru_cache(None)(branch.changelog)
    consumers = _next_reads(branch)
    end = first_kept_changelog(ids, latest, retention, lambda id_: read(id_).time_millis, consumers)
    files = (
        OwnerFile(PaimonKind.CHANGELOG_META, branch, str(id_), info) for id_, info in infos.items()
    )
    leaving = read_owners(file for file in files if end is not None and file.number < end)
    return ChangelogExpiry(branch, retention, tuple(leaving), end, ids[-1], hint)


def _ends(ids: Sequence[int]) -> tuple[int | None, int | None]:
    return (ids[0], ids[-1]) if ids else (None, None)
