"""Edits of snapshots, refs, statistics and the snapshot log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Raw

from lakesweep.errors import CommitConflictError, InvalidUpdateError
from lakesweep.iceberg.document.fields import (
    BRANCH,
    MAIN,
    TAG,
    DocumentEdit,
    Entry,
    OfSnapshot,
    RawDocument,
    SnapshotHead,
    SnapshotRef,
    decode_sent,
    encode,
    no_snapshot,
    plain,
)
from lakesweep.iceberg.document.updates import (
    AddSnapshot,
    RemovePartitionStatistics,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
)

SNAPSHOTS, SNAPSHOT_LOG = "snapshots", "snapshot-log"
STATISTICS, PARTITION_STATISTICS = "statistics", "partition-statistics"
_SEQUENCE_SINCE = 2
_ROW_IDS_SINCE = 3

Removal: TypeAlias = RemoveSnapshots | RemoveStatistics | RemovePartitionStatistics


class SnapshotEdit(DocumentEdit):
    """A document with snapshots, and what one request did to them."""

    def __init__(self, document: RawDocument, now_ms: int) -> None:
        super().__init__(document, now_ms)
        self.added: set[int] = set()
        self.removed: set[int] = set()
        #: Snapshots that were current for a part of the request only.
        self.passed: set[int] = set()

    def known(self) -> set[int]:
        """The ids of all snapshots."""
        return {entry.head.snapshot_id for entry in self.entries(SNAPSHOTS, SnapshotHead)}

    def raw_refs(self) -> dict[str, Raw]:
        """All refs; `main` too where the document leaves it out."""
        refs: dict[str, Raw] = self.get("refs", dict[str, Raw] | None) or {}
        if MAIN not in refs and MAIN in (made := self.refs()):
            return {MAIN: encode(made[MAIN]), **refs}
        return refs


def add_snapshot(edit: SnapshotEdit, update: AddSnapshot) -> None:
    """Append a snapshot. A sequence number or row id that is taken is a conflict: retry."""
    head: SnapshotHead = decode_sent("snapshot", update.snapshot, SnapshotHead)
    if not edit.get("schemas", list | None) and not edit.has("schema"):
        raise InvalidUpdateError("a snapshot cannot be added before a schema")
    if head.snapshot_id in edit.known():
        raise InvalidUpdateError(f"snapshot {head.snapshot_id} exists already")
    version = edit.format_version
    if version >= _SEQUENCE_SINCE:
        _advance_sequence(edit, head)
    if version >= _ROW_IDS_SINCE:
        _advance_rows(edit, head)
    entries = edit.entries(SNAPSHOTS, SnapshotHead)
    edit.put_entries(SNAPSHOTS, [*entries, Entry(head, update.snapshot)])
    edit.added.add(head.snapshot_id)


def _advance_sequence(edit: SnapshotEdit, head: SnapshotHead) -> None:
    last = int(edit.get("last-sequence-number", int | None) or 0)
    number = head.sequence_number or 0
    if number <= last and head.parent_snapshot_id is not None:
        raise CommitConflictError(
            f"Validation failed, please retry: sequence number {number} of snapshot"
            f" {head.snapshot_id} is not above the last one, {last}"
        )
    # A snapshot without a parent may have any number, but the last one never falls.
    edit.put("last-sequence-number", max(last, number))


def _advance_rows(edit: SnapshotEdit, head: SnapshotHead) -> None:
    following = int(edit.get("next-row-id", int | None) or 0)
    if head.first_row_id is None or head.added_rows is None or head.added_rows < 0:
        raise InvalidUpdateError(
            f"snapshot {head.snapshot_id} needs first-row-id and added-rows in a v3 table"
        )
    if head.first_row_id < following:
        raise CommitConflictError(
            f"Validation failed, please retry: first-row-id {head.first_row_id} of snapshot"
            f" {head.snapshot_id} is below the next row id, {following}"
        )
    edit.put("next-row-id", following + head.added_rows)


def set_snapshot_ref(edit: SnapshotEdit, update: SetSnapshotRef) -> None:
    """Point a branch or tag to a snapshot; for `main`, it becomes the current one."""
    ref = _checked_ref(edit, update)
    refs = edit.raw_refs()
    found = refs.get(update.ref_name)
    if found is not None and plain(found) == plain(encode(ref)):
        return
    if update.ref_name == MAIN:
        _set_current(edit, ref.snapshot_id)
    edit.put("refs", {**refs, update.ref_name: encode(ref)})


def _checked_ref(edit: SnapshotEdit, update: SetSnapshotRef) -> SnapshotRef:
    kind = update.type.lower()
    ages = (update.min_snapshots_to_keep, update.max_snapshot_age_ms)
    if update.snapshot_id not in edit.known():
        raise InvalidUpdateError(
            f"{update.ref_name} cannot point to snapshot {update.snapshot_id}: it does not exist"
        )
    if kind not in (BRANCH, TAG) or (kind == TAG and update.ref_name == MAIN):
        raise InvalidUpdateError(f"{update.ref_name} cannot be a {update.type}")
    if kind == TAG and ages != (None, None):
        raise InvalidUpdateError(f"tag {update.ref_name} cannot retain snapshots")
    if any(value is not None and value <= 0 for value in (*ages, update.max_ref_age_ms)):
        raise InvalidUpdateError(f"the retention of {update.ref_name} must be above 0")
    return SnapshotRef(update.snapshot_id, kind, *ages, update.max_ref_age_ms)


def _set_current(edit: SnapshotEdit, snapshot_id: int) -> None:
    """The log has one line for each request that moved `main`, however often it did."""
    before = edit.current_snapshot
    if before == snapshot_id:
        return
    if before in edit.added:
        edit.passed.add(before)
    edit.passed.discard(snapshot_id)
    edit.put("current-snapshot-id", snapshot_id)
    moment = edit.now_ms
    if snapshot_id in edit.added:
        heads = (entry.head for entry in edit.entries(SNAPSHOTS, SnapshotHead))
        moment = next(head.timestamp_ms for head in heads if head.snapshot_id == snapshot_id)
    line = {"timestamp-ms": moment, "snapshot-id": snapshot_id}
    lines = edit.entries(SNAPSHOT_LOG, OfSnapshot)
    edit.put_entries(SNAPSHOT_LOG, [*lines, Entry(OfSnapshot(snapshot_id, moment), encode(line))])


def remove_snapshot_ref(edit: SnapshotEdit, update: RemoveSnapshotRef) -> None:
    """Remove a branch or tag; without `main` there is no current snapshot. Its log stays."""
    _remove_refs(edit, {update.ref_name})


def _remove_refs(edit: SnapshotEdit, names: set[str]) -> None:
    refs = edit.raw_refs()
    if not names & refs.keys():
        return
    if MAIN in names and edit.current_snapshot is not None:
        edit.put("current-snapshot-id", no_snapshot(edit.format_version))
    kept = {name: raw for name, raw in refs.items() if name not in names}
    if edit.has("refs"):
        edit.put("refs", kept)


def apply_removals(edit: SnapshotEdit, updates: Iterable[Removal]) -> None:
    """Remove snapshots and statistics; their order does not matter.

    All at once, because clients send an update for each of up to 100,000 snapshots.
    """
    snapshots, statistics, partition_statistics = set[int](), set[int](), set[int]()
    for update in updates:
        match update:
            case RemoveSnapshots():
                snapshots.update(update.snapshot_ids)
            case RemoveStatistics():
                statistics.add(update.snapshot_id)
            case RemovePartitionStatistics():
                partition_statistics.add(update.snapshot_id)
    gone = _remove_snapshots(edit, snapshots)
    _remove_statistics(edit, STATISTICS, statistics | gone)
    _remove_statistics(edit, PARTITION_STATISTICS, partition_statistics | gone)


def _remove_snapshots(edit: SnapshotEdit, snapshots: set[int]) -> set[int]:
    """Also removes every ref that points to one. Unknown ids are ignored."""
    gone = snapshots & edit.known()
    if gone:
        entries = edit.entries(SNAPSHOTS, SnapshotHead)
        edit.put_entries(SNAPSHOTS, [each for each in entries if each.head.snapshot_id not in gone])
        refs = edit.refs()
        _remove_refs(edit, {name for name, ref in refs.items() if ref.snapshot_id in gone})
        edit.removed |= gone
    return gone


def set_statistics(edit: SnapshotEdit, update: SetStatistics) -> None:
    """Register statistics; there is one file for a snapshot."""
    _set_statistics(edit, STATISTICS, update.statistics)


def set_partition_statistics(edit: SnapshotEdit, update: SetPartitionStatistics) -> None:
    """The same for partition statistics."""
    _set_statistics(edit, PARTITION_STATISTICS, update.partition_statistics)


def _set_statistics(edit: SnapshotEdit, name: str, raw: Raw) -> None:
    head: OfSnapshot = decode_sent(name, raw, OfSnapshot)
    others = [
        entry
        for entry in edit.entries(name, OfSnapshot)
        if entry.head.snapshot_id != head.snapshot_id
    ]
    edit.put_entries(name, [*others, Entry(head, raw)])


def _remove_statistics(edit: SnapshotEdit, name: str, snapshots: set[int]) -> None:
    entries = edit.entries(name, OfSnapshot)
    kept = [entry for entry in entries if entry.head.snapshot_id not in snapshots]
    edit.keep_entries(name, kept, OfSnapshot)


def rewrite_snapshot_log(edit: SnapshotEdit) -> None:
    """Drop lines of snapshots that are not there.

    After a removal, everything before such a line is dropped too: with a gap, time travel would
    answer with the snapshot before the gap, which was not current then.
    """
    known, kept = edit.known(), list[Entry[OfSnapshot]]()
    for line in edit.entries(SNAPSHOT_LOG, OfSnapshot):
        if line.head.snapshot_id not in known:
            kept = [] if edit.removed else kept
        elif line.head.snapshot_id not in edit.passed:
            kept.append(line)
    edit.keep_entries(SNAPSHOT_LOG, kept, OfSnapshot)


def check_refs(edit: SnapshotEdit) -> None:
    """InvalidUpdateError if a ref points nowhere: no engine could read the table any more."""
    known = edit.known()
    for name, ref in edit.refs().items():
        if ref.snapshot_id not in known:
            raise InvalidUpdateError(
                f"{name!r} points to snapshot {ref.snapshot_id}, which does not exist"
            )
    main = edit.refs().get(MAIN)
    if (main.snapshot_id if main else None) != edit.current_snapshot:
        raise InvalidUpdateError("the current snapshot is not that of main")
