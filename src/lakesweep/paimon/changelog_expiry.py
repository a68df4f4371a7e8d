"""Expiring changelogs that outlived their snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import pyarrow as pa

from lakesweep.paimon.claims import Claim
from lakesweep.paimon.expiring import check_may_go, move_earliest, present, unless_overtaken
from lakesweep.paimon.garbage import Garbage
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.owners import Owner, OwnerFile, read_owners
from lakesweep.paimon.retention import Retention, first_kept_changelog
from lakesweep.paimon.table import Branch


@dataclass(frozen=True)
class ChangelogExpiry:
    """The changelogs of a branch that are to go: all before `earliest`."""

    branch: Branch
    retention: Retention
    leaving: tuple[Owner, ...]
    earliest: int | None
    latest: int | None
    planned: Sequence[Claim] = ()

    @property
    def title(self) -> str:
        numbers = [owner.snapshot.id for owner in self.leaving]
        return f"changelogs of {self.branch.name}: {numbers}"

    def candidates(self) -> Iterator[pa.RecordBatch]:
        garbage = Garbage(self.branch)
        leaving = [owner.snapshot for owner in self.leaving]
        yield from garbage.deleted_files(each.delta_manifest_list for each in leaving)
        yield from garbage.changelog_files(leaving)
        # Where the table writes no changelogs, the lists of the snapshots stood for them.
        yield from garbage.state_lists(leaving)

    def prepare(self) -> Sequence[OwnerFile]:
        files = present(self.branch, [owner.file for owner in self.leaving])
        check_may_go(files, choose_changelogs(self.branch, self.retention).leaving)
        move_earliest(self.branch, "changelog", self.branch.changelog_ids(), files)
        return files


def choose_changelogs(branch: Branch, retention: Retention) -> ChangelogExpiry:
    """The changelogs that may go. The table is not changed."""
    return unless_overtaken(partial(_choose, branch, retention))


def _choose(branch: Branch, retention: Retention) -> ChangelogExpiry:
    infos = branch.changelog_files().files
    ids = list(infos)
    latest = max(branch.snapshot_ids(), default=None)
    if latest is None or not ids:
        return ChangelogExpiry(branch, retention, (), *_ends(ids))
    read = lru_cache(None)(branch.changelog)
    consumers = [consumer.next_snapshot for consumer in branch.consumers()]
    end = first_kept_changelog(ids, latest, retention, lambda id_: read(id_).time_millis, consumers)
    files = (OwnerFile(Kind.CHANGELOG_META, branch, str(id_), info) for id_, info in infos.items())
    leaving = read_owners(file for file in files if end is not None and file.number < end)
    return ChangelogExpiry(branch, retention, tuple(leaving), end, ids[-1])


def _ends(ids: Sequence[int]) -> tuple[int | None, int | None]:
    return (ids[0], ids[-1]) if ids else (None, None)
