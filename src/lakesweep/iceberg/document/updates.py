"""The updates of the Iceberg REST protocol, for tables and views, as typed values.

They say what is to change; `table_edit` and `view_edit` do it. What a client sends to become part
of the metadata, such as a snapshot, stays raw JSON, so that fields unknown here survive.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from lakesweep.decoding import typed_json
from lakesweep.errors import InvalidUpdateError
from lakesweep.untrusted.documents import JSON_ERRORS, Long

#: Stands for the schema, spec, order or version that was added last in the same request.
LAST_ADDED = -1


class _Update(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="action"):
    """One change of a document. Absent optional fields are not sent."""


class AssignUuid(_Update, frozen=True, kw_only=True, tag="assign-uuid"):
    uuid: str


class UpgradeFormatVersion(_Update, frozen=True, kw_only=True, tag="upgrade-format-version"):
    format_version: int


class AddSchema(_Update, frozen=True, kw_only=True, tag="add-schema"):
    schema: Raw


class SetCurrentSchema(_Update, frozen=True, kw_only=True, tag="set-current-schema"):
    schema_id: int


class AddPartitionSpec(_Update, frozen=True, kw_only=True, tag="add-spec"):
    spec: Raw


class SetDefaultSpec(_Update, frozen=True, kw_only=True, tag="set-default-spec"):
    spec_id: int


class AddSortOrder(_Update, frozen=True, kw_only=True, tag="add-sort-order"):
    sort_order: Raw


class SetDefaultSortOrder(_Update, frozen=True, kw_only=True, tag="set-default-sort-order"):
    sort_order_id: int


class AddSnapshot(_Update, frozen=True, kw_only=True, tag="add-snapshot"):
    snapshot: Raw


class SetSnapshotRef(
    _Update, frozen=True, kw_only=True, tag="set-snapshot-ref", omit_defaults=True
):
    """Point a branch or tag to a snapshot. It replaces the whole ref, retention included."""

    ref_name: str
    type: str
    snapshot_id: Long
    min_snapshots_to_keep: Long | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None


class RemoveSnapshots(_Update, frozen=True, kw_only=True, tag="remove-snapshots"):
    snapshot_ids: tuple[Long, ...]


class RemoveSnapshotRef(_Update, frozen=True, kw_only=True, tag="remove-snapshot-ref"):
    ref_name: str


class SetLocation(_Update, frozen=True, kw_only=True, tag="set-location"):
    location: str


class SetProperties(_Update, frozen=True, kw_only=True, tag="set-properties", omit_defaults=True):
    """`updated` is how old clients spell `updates`."""

    updates: dict[str, str] | None = None
    updated: dict[str, str] | None = None

    @property
    def values(self) -> dict[str, str]:
        return {**(self.updated or {}), **(self.updates or {})}


class RemoveProperties(
    _Update, frozen=True, kw_only=True, tag="remove-properties", omit_defaults=True
):
    """`removed` is how old clients spell `removals`."""

    removals: tuple[str, ...] | None = None
    removed: tuple[str, ...] | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*(self.removals or ()), *(self.removed or ())))


class SetStatistics(_Update, frozen=True, kw_only=True, tag="set-statistics"):
    statistics: Raw


class RemoveStatistics(_Update, frozen=True, kw_only=True, tag="remove-statistics"):
    snapshot_id: Long


class SetPartitionStatistics(_Update, frozen=True, kw_only=True, tag="set-partition-statistics"):
    partition_statistics: Raw


class RemovePartitionStatistics(
    _Update, frozen=True, kw_only=True, tag="remove-partition-statistics"
):
    snapshot_id: Long


class RemovePartitionSpecs(_Update, frozen=True, kw_only=True, tag="remove-partition-specs"):
    spec_ids: tuple[int, ...]


class RemoveSchemas(_Update, frozen=True, kw_only=True, tag="remove-schemas"):
    schema_ids: tuple[int, ...]


class AddEncryptionKey(_Update, frozen=True, kw_only=True, tag="add-encryption-key"):
    encryption_key: Raw


class RemoveEncryptionKey(_Update, frozen=True, kw_only=True, tag="remove-encryption-key"):
    key_id: str


class AddViewVersion(_Update, frozen=True, kw_only=True, tag="add-view-version"):
    view_version: Raw


class SetCurrentViewVersion(_Update, frozen=True, kw_only=True, tag="set-current-view-version"):
    view_version_id: int


TableUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)
ViewUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)


def decode_table_updates(data: bytes | Raw) -> tuple[TableUpdate, ...]:
    """The updates of a commit request; InvalidUpdateError if one is unknown or malformed."""
    try:
        return typed_json(data, tuple[TableUpdate, ...])
    except JSON_ERRORS as error:
        raise InvalidUpdateError(f"the updates cannot be read: {error}") from error


def decode_view_updates(data: bytes | Raw) -> tuple[ViewUpdate, ...]:
    """The same for a view."""
    try:
        return typed_json(data, tuple[ViewUpdate, ...])
    except JSON_ERRORS as error:
        raise InvalidUpdateError(f"the updates cannot be read: {error}") from error
