"""Expire tags whose retention time has passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial

import pyarrow as pa

from lakesweep.paimon.expire.candidates import Garbage
from lakesweep.paimon.expire.snapshot_expiry import (
    check_expirable,
    retry_if_overtaken,
    still_present,
)
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.snapshots import ZONES_APART, PaimonSnapshot, PaimonTag
from lakesweep.paimon.model.table import PaimonBranch
from lakesweep.paimon.reach.claims import OwnerClaim
from lakesweep.paimon.reach.owners import FileOwner, OwnerFile


@dataclass(frozen=True, slots=True)
class TagRule:
    """When tags expire: after their retention time; without one, when they are older than `cut`.

    Tags record when they were created in the local time of the writer: `zone`.
    """

    now: datetime
    zone: tzinfo
    cut: datetime | None = None

    def is_over(self, tag: PaimonTag) -> bool:
        """Whether a tag may expire; one of unknown age may not."""
        if tag.retained is not None:
            created = self._created(tag)
            # Subtracted: a retention of centuries would lead beyond the calendar.
            return created is not None and self.now - created > tag.retained
        age = self._created(tag) or tag.modified
        return self.cut is not None and age is not None and age < self.cut

    def _created(self, tag: PaimonTag) -> datetime | None:
        """By the tag; or by its file, if that is younger by no more than two zones can differ.

        Then the tag was created in another zone, or its file was written later. The younger time
        never expires a tag too early.
        """
        if tag.created is None:
            return None
        said = tag.created.replace(tzinfo=self.zone)
        is_near = tag.modified is not None and said < tag.modified < said + ZONES_APART
        return tag.modified if is_near else said


@dataclass(frozen=True)
class TagExpiry:
    """The tags of a branch that expire."""

    branch: PaimonBranch
    rule: TagRule
    leaving: tuple[FileOwner, ...]
    planned: Sequence[OwnerClaim] = ()

    @property
    def names(self) -> list[str]:
        return [owner.file.name for owner in self.leaving]

    @property
    def title(self) -> str:
        return f"tags of {self.branch.name}: {self.names}"

    def candidates(self) -> Iterator[pa.RecordBatch]:
        garbage = Garbage(self.branch)
        leaving = [owner.snapshot for owner in self.leaving if not self._is_snapshot(owner)]
        for each in leaving:
            yield from garbage.live_files((each.base_manifest_list, each.delta_manifest_list))
        yield from garbage.index_files(leaving)
        yield from garbage.changelog_files(leaving)
        yield from garbage.state_lists(leaving)

    def prepare(self) -> Sequence[OwnerFile]:
        files = still_present(self.branch, [owner.file for owner in self.leaving])
        check_expirable(files, choose_tags(self.branch, self.rule).leaving)
        return files

    @property
    def removed(self) -> None:
        return None  # no rollback leads to a tag without writing its snapshot

    def may_leave(self) -> bool:
        return True  # a rollback to a tag writes the snapshot, which then holds the files

    def put_back(self, removed: Sequence[OwnerFile]) -> Sequence[OwnerFile]:
        return removed[:0]  # consumers read no tags

    def _is_snapshot(self, owner: FileOwner) -> bool:
        """Whether the snapshot of a tag still exists: it holds everything that the tag holds."""
        number = owner.snapshot.id
        return number in self.branch.snapshot_ids() and _are_same(
            self.branch.snapshot(number), owner.snapshot
        )


def choose_tags(branch: PaimonBranch, rule: TagRule) -> TagExpiry:
    """The tags that may expire. Does not change the table."""
    return retry_if_overtaken(partial(_choose, branch, rule))


def _choose(branch: PaimonBranch, rule: TagRule) -> TagExpiry:
    leaving = []
    for name, info in branch.tag_files().items():
        tag = branch.tag(name, info)
        if rule.is_over(tag):
            leaving.append(FileOwner(OwnerFile(PaimonKind.TAG, branch, name, info), tag.snapshot))
    return TagExpiry(branch, rule, tuple(leaving))


def _are_same(one: PaimonSnapshot, other: PaimonSnapshot) -> bool:
    return (one.base_manifest_list, one.delta_manifest_list) == (
        other.base_manifest_list,
        other.delta_manifest_list,
    )
