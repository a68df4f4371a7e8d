"""Apply the updates of one commit to the metadata document of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, cast

from msgspec import Raw

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import (
    DocumentEdit,
    Entry,
    KeyId,
    LogLine,
    OfSnapshot,
    RawDocument,
    applying,
    decode_sent,
    encode,
)
from lakesweep.iceberg.document.partitioning import (
    add_sort_order,
    add_spec,
    remove_specs,
    set_default_sort_order,
    set_default_spec,
)
from lakesweep.iceberg.document.properties import (
    assign_uuid,
    remove_properties,
    set_location,
    set_properties,
)
from lakesweep.iceberg.document.schemas import (
    add_schema,
    raise_last_column,
    remove_schemas,
    set_current_schema,
    with_field,
)
from lakesweep.iceberg.document.snapshots import (
    SNAPSHOT_LOG,
    Removal,
    SnapshotEdit,
    add_snapshot,
    apply_removals,
    check_refs,
    remove_snapshot_ref,
    rewrite_snapshot_log,
    set_partition_statistics,
    set_snapshot_ref,
    set_statistics,
)
from lakesweep.iceberg.document.updates import (
    AddEncryptionKey,
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    TableUpdate,
    UpgradeFormatVersion,
)
from lakesweep.untrusted.documents import Long, parse_long

METADATA_LOG, LAST_UPDATED = "metadata-log", "last-updated-ms"
_LOG_LENGTH = "write.metadata.previous-versions-max"
_USUAL_LOG_LENGTH = 100
_KEYS = "encryption-keys"
_NEWEST_VERSION = 4
_SEQUENCE_SINCE, _ROW_IDS_SINCE = 2, 3


class TableEdit(SnapshotEdit):
    """A document of a table, and what was added last, which -1 stands for."""

    last_schema: int | None = None
    last_spec: int | None = None
    last_order: int | None = None


def apply_table_updates(
    document: RawDocument,
    updates: Iterable[TableUpdate],
    *,
    now_ms: int,
    location: str | None,
) -> RawDocument:
    """The document after a commit; the same object if the updates change nothing.

    `location` is where the document lies, and becomes the last line of the new one's log; None for
    a table that is only being created. InvalidUpdateError if an update does not fit, and
    CommitConflictError if a snapshot was prepared for an older state.
    """
    edit = TableEdit(document, now_ms)
    with applying():
        _apply_all(edit, updates)
        if not edit.changed:
            return document
        _finish(edit, location)
        return edit.result()


def _apply_all(edit: TableEdit, updates: Iterable[TableUpdate]) -> None:
    for is_removal, run in groupby(updates, key=lambda update: isinstance(update, Removal)):
        if is_removal:
            apply_removals(edit, cast("Iterable[Removal]", run))
        else:
            _apply_each(edit, run)


def _apply_each(edit: TableEdit, updates: Iterable[TableUpdate]) -> None:
    for update in updates:
        match update:
            case AddSchema():
                edit.last_schema = add_schema(edit, update)
                raise_last_column(edit, update.schema)
            case AddPartitionSpec():
                edit.last_spec = add_spec(edit, update)
            case AddSortOrder():
                edit.last_order = add_sort_order(edit, update)
            case SetCurrentSchema():
                set_current_schema(edit, update, edit.last_schema)
            case SetDefaultSpec():
                set_default_spec(edit, update, edit.last_spec)
            case SetDefaultSortOrder():
                set_default_sort_order(edit, update, edit.last_order)
            case _:
                _APPLY[type(update)](edit, update)


def _upgrade(edit: TableEdit, update: UpgradeFormatVersion) -> None:
    """Raise the format version. What the new one requires starts at zero."""
    before, after = edit.format_version, update.format_version
    if not before <= after <= _NEWEST_VERSION:
        raise InvalidUpdateError(f"a v{before} table cannot be upgraded to v{after}")
    if before == after:
        return
    edit.put("format-version", after)
    if before < _SEQUENCE_SINCE:
        _leave_v1(edit)
    if before < _ROW_IDS_SINCE <= after:
        edit.put("next-row-id", 0)
        if edit.current_snapshot is None:
            edit.put("current-snapshot-id", None)


def _leave_v1(edit: TableEdit) -> None:
    """Sequence numbers begin; the single schema and spec of v1 become lists of one."""
    edit.put("last-sequence-number", 0)
    schema = edit.get("schema", Raw)
    if not edit.has("schemas") and schema is not None:
        edit.put("schemas", [with_field(schema, "schema-id", 0)])
        edit.put("current-schema-id", 0)
    fields = edit.get("partition-spec", Raw)
    if not edit.has("partition-specs") and fields is not None:
        edit.put("partition-specs", [{"spec-id": 0, "fields": fields}])
        edit.put("default-spec-id", 0)
    for name in ("schema", "partition-spec"):
        edit.drop(name)


def _add_key(edit: TableEdit, update: AddEncryptionKey) -> None:
    head: KeyId = decode_sent("encryption key", update.encryption_key, KeyId)
    entries = edit.entries(_KEYS, KeyId)
    if head not in {entry.head for entry in entries}:
        edit.put_entries(_KEYS, [*entries, Entry(head, update.encryption_key)])


def _remove_key(edit: TableEdit, update: RemoveEncryptionKey) -> None:
    entries = edit.entries(_KEYS, KeyId)
    kept = [entry for entry in entries if entry.head.key_id != update.key_id]
    edit.keep_entries(_KEYS, kept, KeyId)


def _finish(edit: SnapshotEdit, location: str | None) -> None:
    rewrite_snapshot_log(edit)
    check_refs(edit)
    before = edit.get(LAST_UPDATED, Long | None)
    if location is not None:
        _log_metadata(edit, location, before or 0)
    # Engines reject a document that is more than a minute older than its logs.
    lines = [line.head.timestamp_ms for line in edit.entries(SNAPSHOT_LOG, OfSnapshot)[-1:]]
    edit.put(LAST_UPDATED, max(edit.now_ms, before or 0, *lines))


def _log_metadata(edit: DocumentEdit, location: str, moment: int) -> None:
    """Append the replaced file, and keep as many as the table's new properties say."""
    line = {"timestamp-ms": moment, "metadata-file": location}
    lines = [*edit.entries(METADATA_LOG, LogLine), Entry(LogLine(moment, location), encode(line))]
    edit.put_entries(METADATA_LOG, lines[-log_length(edit.properties()) :])


def log_length(properties: Mapping[str, str]) -> int:
    """How many earlier metadata files a table with these properties lists."""
    length = parse_long(properties.get(_LOG_LENGTH, ""))
    return _USUAL_LOG_LENGTH if length is None else max(1, length)


_APPLY: Mapping[type, Callable[[TableEdit, Any], None]] = {
    AssignUuid: partial(assign_uuid, name="table-uuid"),
    UpgradeFormatVersion: _upgrade,
    SetLocation: set_location,
    RemoveSchemas: remove_schemas,
    RemovePartitionSpecs: remove_specs,
    AddEncryptionKey: _add_key,
    RemoveEncryptionKey: _remove_key,
    AddSnapshot: add_snapshot,
    SetSnapshotRef: set_snapshot_ref,
    RemoveSnapshotRef: remove_snapshot_ref,
    SetStatistics: set_statistics,
    SetPartitionStatistics: set_partition_statistics,
    SetProperties: set_properties,
    RemoveProperties: remove_properties,
}
