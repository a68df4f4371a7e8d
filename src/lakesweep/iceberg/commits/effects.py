"""Whether the effects of a change can be seen in a document: how an unknown commit is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lakesweep.iceberg.document.fields import OfSnapshot, RawDocument, SnapshotHead, decode_field
from lakesweep.iceberg.document.updates import (
    AddSnapshot,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetProperties,
    SetSnapshotRef,
    TableUpdate,
)
from lakesweep.untrusted.documents import JsonObject


def are_visible(updates: Iterable[TableUpdate], document: RawDocument) -> bool:
    """Whether a document shows every update that can be seen, and at least one of them."""
    seen = [_CHECKS[type(each)](document, each) for each in updates if type(each) in _CHECKS]
    return bool(seen) and all(seen)


def _has_no_snapshots(document: RawDocument, update: RemoveSnapshots) -> bool:
    return not {head.snapshot_id for head in document.snapshots()} & {*update.snapshot_ids}


def _has_snapshot(document: RawDocument, update: AddSnapshot) -> bool:
    head: SnapshotHead = decode_field(document.path, "snapshot", update.snapshot, SnapshotHead)
    return head.snapshot_id in {each.snapshot_id for each in document.snapshots()}


def _has_ref(document: RawDocument, update: SetSnapshotRef) -> bool:
    """The ref may have moved on since; then its snapshot is still there."""
    found = document.refs().get(update.ref_name)
    known = {each.snapshot_id for each in document.snapshots()}
    return found is not None and update.snapshot_id in known


def _has_no_statistics(name: str) -> Callable[[RawDocument, Any], bool]:
    def check(document: RawDocument, update: RemoveStatistics | RemovePartitionStatistics) -> bool:
        entries: list[OfSnapshot] = document.get(name, list[OfSnapshot] | None) or []
        return update.snapshot_id not in {each.snapshot_id for each in entries}

    return check


def _has_no_ids(name: str, field: str, ids: Callable[[Any], Iterable[int]]) -> Any:
    def check(document: RawDocument, update: RemoveSchemas | RemovePartitionSpecs) -> bool:
        entries: list[JsonObject] = document.get(name, list[JsonObject] | None) or []
        return not {each.get(field) for each in entries} & {*ids(update)}

    return check


_CHECKS: Mapping[type, Callable[[RawDocument, Any], bool]] = {
    RemoveSnapshots: _has_no_snapshots,
    AddSnapshot: _has_snapshot,
    SetSnapshotRef: _has_ref,
    RemoveSnapshotRef: lambda document, update: update.ref_name not in document.refs(),
    RemoveStatistics: _has_no_statistics("statistics"),
    RemovePartitionStatistics: _has_no_statistics("partition-statistics"),
    RemoveSchemas: _has_no_ids("schemas", "schema-id", lambda update: update.schema_ids),
    RemovePartitionSpecs: _has_no_ids("partition-specs", "spec-id", lambda each: each.spec_ids),
    SetProperties: lambda document, update: update.values.items() <= document.properties().items(),
    RemoveProperties: lambda document, update: not update.names & document.properties().keys(),
}
