from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from lakesweep.clock import ManualClock
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    MetadataChange,
    commit_with_retries,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUuid,
)
from lakesweep.iceberg.document.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshots,
    TableUpdate,
)
from lakesweep.storage.stores import Stores

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _table(version: int) -> LoadedTable:
    data = msgspec.json.encode({"table-uuid": "abc", "current-snapshot-id": version})
    return LoadedTable("t", f"v{version}", RawDocument.parse("t", data), Stores())


@dataclass
class _Busy:
    """A table that other writers change as often as there are conflicts."""

    conflicts: int
    name: str = "t"
    tried: list[tuple[str, MetadataChange]] = field(default_factory=list)

    def load(self) -> LoadedTable:
        return _table(len(self.tried))

    def expired_by(self, _: LoadedTable) -> str | None:
        return None

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        self.tried.append((base.location, change))
        is_free = len(self.tried) > self.conflicts
        status = CommitStatus.COMMITTED if is_free else CommitStatus.CONFLICT
        return CommitOutcome(status, base, lost_refs={})


def _remove_current(base: LoadedTable) -> MetadataChange:
    current = base.document.current_snapshot or 0
    return MetadataChange.of(base.document, [RemoveSnapshots(snapshot_ids=(current,))])


def test_each_attempt_decides_from_nothing() -> None:
    table = _Busy(conflicts=2)
    outcome = commit_with_retries(table, _remove_current, clock=ManualClock(NOW))
    assert (outcome.status, outcome.lost_refs) == (CommitStatus.COMMITTED, {})
    assert [(location, change.updates) for location, change in table.tried] == [
        (f"v{n}", (RemoveSnapshots(snapshot_ids=(n,)),)) for n in range(3)
    ]


def test_conflicts_end_after_some_attempts() -> None:
    table = _Busy(conflicts=99)
    outcome = commit_with_retries(table, _remove_current, attempts=3, clock=ManualClock(NOW))
    assert (outcome.status, len(table.tried)) == (CommitStatus.CONFLICT, 3)


def test_nothing_to_change_is_no_commit() -> None:
    table = _Busy(conflicts=0)
    assert commit_with_retries(table, lambda _: None).status is CommitStatus.UNCHANGED
    assert table.tried == []


def test_a_change_asserts_every_ref() -> None:
    refs = {"main": {"snapshot-id": 1}, "t": {"snapshot-id": 2, "type": "tag"}}
    content = {"table-uuid": "abc", "current-snapshot-id": 1, "refs": refs, "current-schema-id": 4}
    document = RawDocument.parse("t", msgspec.json.encode(content))
    updates: list[TableUpdate] = [
        RemoveSchemas(schema_ids=(1,)),
        RemovePartitionSpecs(spec_ids=(1,)),
    ]
    assert MetadataChange.of(document, updates).requirements == (
        AssertTableUuid(uuid="abc"),
        AssertRefSnapshotId(ref="main", snapshot_id=1),
        AssertRefSnapshotId(ref="t", snapshot_id=2),
        AssertCurrentSchemaId(current_schema_id=4),
        AssertDefaultSpecId(default_spec_id=0),
    )
