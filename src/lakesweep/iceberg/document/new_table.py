"""The document of a table that is only being created, from the updates of its first commit."""

from __future__ import annotations

from collections.abc import Iterable

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument, encode, no_snapshot
from lakesweep.iceberg.document.partitioning import DEFAULT_ORDER, DEFAULT_SPEC
from lakesweep.iceberg.document.schemas import CURRENT_SCHEMA
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.iceberg.document.updates import TableUpdate, UpgradeFormatVersion
from lakesweep.untrusted.documents import JsonObject

_USUAL_VERSION = 2
_VERSIONS = (1, 2, 3, 4)
_SEQUENCE_SINCE, _ROW_IDS_SINCE = 2, 3
#: What a table cannot do without, and who sets it.
_NEEDED = {
    "table-uuid": "assign-uuid",
    "location": "set-location",
    CURRENT_SCHEMA: "set-current-schema",
    DEFAULT_SPEC: "set-default-spec",
    DEFAULT_ORDER: "set-default-sort-order",
}


def create_table_document(path: str, updates: Iterable[TableUpdate], *, now_ms: int) -> RawDocument:
    """The first document of a table; `path` names it in errors.

    The format version is that of the first upgrade. InvalidUpdateError if something is missing.
    """
    updates = tuple(updates)
    upgrades = (each.format_version for each in updates if isinstance(each, UpgradeFormatVersion))
    empty = _empty_document(path, next(upgrades, _USUAL_VERSION))
    document = apply_table_updates(empty, updates, now_ms=now_ms, location=None)
    for name, action in _NEEDED.items():
        if name not in document.fields:
            raise InvalidUpdateError(f"a new table needs {action}")
    return document


def _empty_document(path: str, version: int) -> RawDocument:
    """What every new table begins with, in the order in which Iceberg writes it."""
    if version not in _VERSIONS:
        raise InvalidUpdateError(f"there is no format version {version}")
    content: JsonObject = {"format-version": version}
    if version >= _SEQUENCE_SINCE:
        content["last-sequence-number"] = 0
    content |= {
        "last-updated-ms": 0,
        "last-column-id": 0,
        "schemas": [],
        "partition-specs": [],
        "last-partition-id": 999,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": no_snapshot(version),
    }
    if version >= _ROW_IDS_SINCE:
        content["next-row-id"] = 0
    content |= {"refs": {}, "snapshots": [], "statistics": [], "partition-statistics": []}
    content |= {"snapshot-log": [], "metadata-log": []}
    return RawDocument(path, {name: encode(value) for name, value in content.items()})
