"""Damaged documents and updates are applied, or refused by name. Nothing else happens."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from typing import Any

from lakesweep.errors import CommitConflictError, FormatError, InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    check_requirements,
    decode_table_requirements,
)
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import decode_table_updates
from tests.fuzz.damage import damaged_document
from tests.fuzz.samples import samples
from tests.random_tests import Cases

_METADATA = r"[^z]\.metadata\.json$"
_REFUSED = (FormatError, InvalidUpdateError, CommitConflictError)
_SCHEMA = {
    "type": "struct",
    "identifier-field-ids": [1],
    "fields": [{"id": 1, "name": "a", "required": True, "type": "long", "doc": "x"}],
}


@cache
def _documents() -> list[Any]:
    return [json.loads(data) for data in samples("iceberg", _METADATA)]


def _updates(document: Any) -> list[dict[str, Any]]:
    """One update of each kind, as far as they fit the document."""
    snapshots = document.get("snapshots") or [{"snapshot-id": 1}]
    first = snapshots[0]["snapshot-id"]
    new = {
        **snapshots[-1],
        "snapshot-id": 5,
        "sequence-number": 10**6,
        "first-row-id": 10**9,
        "added-rows": 1,
    }
    field = {"source-id": 1, "transform": "identity", "name": "a_id", "field-id": 1000}
    return [
        {"action": "add-schema", "schema": _SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [field]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": [{**field, "direction": "asc"}]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": new},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
        {"action": "remove-snapshots", "snapshot-ids": [first]},
        {"action": "set-statistics", "statistics": {"snapshot-id": 5, "statistics-path": "p"}},
        {"action": "remove-statistics", "snapshot-id": 5},
        {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "2"}},
        {"action": "remove-properties", "removals": ["owner"]},
        {"action": "set-location", "location": "s3://lake/elsewhere"},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k"}},
    ]


def _apply(document: bytes, updates: bytes) -> None:
    base = RawDocument.parse("t.metadata.json", document)
    after = apply_table_updates(
        base, decode_table_updates(updates), now_ms=10**13, location="t.metadata.json"
    )
    written = RawDocument.parse("t", after.encode())
    assert written.fields.keys() <= {*base.fields, *_KNOWN}


#: What updates may add to a document.
_KNOWN = {
    *("schemas", "current-schema-id", "last-column-id", "partition-specs", "default-spec-id"),
    *("last-partition-id", "sort-orders", "default-sort-order-id", "snapshots", "refs", "location"),
    *("current-snapshot-id", "snapshot-log", "metadata-log", "last-updated-ms", "properties"),
    *("last-sequence-number", "next-row-id", "statistics", "encryption-keys", "format-version"),
    *("schema", "partition-spec"),
}


def test_damaged_documents(cases: Cases) -> None:
    for chance in cases(1_500):
        document = chance.choice(_documents())
        updates = _updates(document)
        chosen = chance.sample(updates, chance.randint(1, len(updates)))
        with suppress(*_REFUSED):
            _apply(damaged_document(document, chance), json.dumps(chosen).encode())


def test_damaged_updates(cases: Cases) -> None:
    for chance in cases(1_500):
        document = chance.choice(_documents())
        updates = damaged_document(_updates(document), chance)
        with suppress(*_REFUSED):
            _apply(json.dumps(document).encode(), updates)


def test_damaged_requirements(cases: Cases) -> None:
    for chance in cases(500):
        document = chance.choice(_documents())
        wanted = [
            {"type": "assert-table-uuid", "uuid": document.get("table-uuid", "")},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
            {"type": "assert-current-schema-id", "current-schema-id": 0},
        ]
        with suppress(*_REFUSED):
            base = RawDocument.parse("t", damaged_document(document, chance))
            check_requirements(base, decode_table_requirements(damaged_document(wanted, chance)))
