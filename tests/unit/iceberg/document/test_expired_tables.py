"""Expiries by our edits, compared with the documents that Iceberg 1.12 wrote for the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import (
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    TableUpdate,
)
from tests.expiry_lake import ExpiryCase, expiry_cases, object_at

_CASES = [case for case in expiry_cases() if case.document_after() is not None]


def _updates(case: ExpiryCase) -> Iterator[TableUpdate]:
    """What the engine removed, as updates in the order that every server takes."""
    answer = case.answer
    for snapshot_id in answer["snapshots_removed"]:
        yield RemoveStatistics(snapshot_id=snapshot_id)
        yield RemovePartitionStatistics(snapshot_id=snapshot_id)
    for name in answer["refs_removed"]:
        yield RemoveSnapshotRef(ref_name=name)
    yield RemoveSnapshots(snapshot_ids=tuple(answer["snapshots_removed"]))
    for kind, names in ((RemovePartitionSpecs, "partition_specs"), (RemoveSchemas, "schemas")):
        gone = set(answer[f"{names}_before"]) - set(answer[f"{names}_after"])
        if gone and kind is RemoveSchemas:
            yield RemoveSchemas(schema_ids=tuple(gone))
        elif gone:
            yield RemovePartitionSpecs(spec_ids=tuple(gone))


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_an_expiry_gives_the_document_that_iceberg_wrote(case: ExpiryCase) -> None:
    before = RawDocument.parse(case.metadata_before, object_at(case.metadata_before))
    after = apply_table_updates(
        before, _updates(case), now_ms=case.now_ms, location=case.metadata_before
    )
    expected = case.document_after() or {}
    found = json.loads(after.encode())
    assert _known(found, expected) == expected
    # What Iceberg drops because it does not know it stays, and in its place.
    assert [name for name in found if name in before.fields] == list(before.fields)


def _known(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The fields that Iceberg writes; it also fills in what an older document leaves out."""
    for snapshot in found["snapshots"]:
        snapshot.pop("x-extra", None)
    return {name: found.get(name, expected[name]) for name in expected}


def test_survivors_keep_their_bytes() -> None:
    case = next(case for case in _CASES if case.table == "attic.odd.shuffled")
    data = object_at(case.metadata_before)
    before = RawDocument.parse(case.metadata_before, data)
    gone = set(case.answer["snapshots_removed"])
    after = apply_table_updates(
        before, [RemoveSnapshots(snapshot_ids=tuple(gone))], now_ms=case.now_ms, location="x"
    )
    for name in before.fields.keys() - {"snapshots", "snapshot-log", "metadata-log"}:
        assert name == "last-updated-ms" or bytes(after.fields[name]) == bytes(before.fields[name])
    for snapshot in json.loads(data)["snapshots"]:
        written = json.dumps(snapshot, ensure_ascii=False).encode()
        assert (written in after.encode()) == (snapshot["snapshot-id"] not in gone)
