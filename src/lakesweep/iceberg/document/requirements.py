"""The requirements of the Iceberg REST protocol, and how they are checked against a document.

All of them are checked on the state before the first update. The words of a failed one are those
of the reference implementation, because clients look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from lakesweep.decoding import typed_json
from lakesweep.errors import CommitConflictError, InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument, SnapshotRef
from lakesweep.untrusted.documents import JSON_ERRORS, Long


class _Requirement(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type"):
    """What must hold for a commit to be accepted."""


class AssertCreate(_Requirement, frozen=True, kw_only=True, tag="assert-create"):
    """There is no such table yet."""


class AssertTableUuid(_Requirement, frozen=True, kw_only=True, tag="assert-table-uuid"):
    uuid: str


class AssertRefSnapshotId(_Requirement, frozen=True, kw_only=True, tag="assert-ref-snapshot-id"):
    """A ref points to this snapshot; None: it does not exist."""

    ref: str
    snapshot_id: Long | None = None


class AssertLastAssignedFieldId(
    _Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-field-id"
):
    last_assigned_field_id: int


class AssertCurrentSchemaId(
    _Requirement, frozen=True, kw_only=True, tag="assert-current-schema-id"
):
    current_schema_id: int


class AssertLastAssignedPartitionId(
    _Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-partition-id"
):
    last_assigned_partition_id: int


class AssertDefaultSpecId(_Requirement, frozen=True, kw_only=True, tag="assert-default-spec-id"):
    default_spec_id: int


class AssertDefaultSortOrderId(
    _Requirement, frozen=True, kw_only=True, tag="assert-default-sort-order-id"
):
    default_sort_order_id: int


class AssertViewUuid(_Requirement, frozen=True, kw_only=True, tag="assert-view-uuid"):
    uuid: str


TableRequirement: TypeAlias = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


def decode_table_requirements(data: bytes | Raw) -> tuple[TableRequirement, ...]:
    """The requirements of a commit request; InvalidUpdateError if one is unknown or malformed."""
    try:
        return typed_json(data, tuple[TableRequirement, ...])
    except JSON_ERRORS as error:
        raise InvalidUpdateError(f"the requirements cannot be read: {error}") from error


def decode_view_requirements(data: bytes | Raw) -> tuple[AssertViewUuid, ...]:
    """The same for a view, which has only one kind."""
    try:
        return typed_json(data, tuple[AssertViewUuid, ...])
    except JSON_ERRORS as error:
        raise InvalidUpdateError(f"the requirements cannot be read: {error}") from error


def check_requirements(
    document: RawDocument | None, requirements: Iterable[TableRequirement | AssertViewUuid]
) -> None:
    """CommitConflictError for the first that does not hold; no document means no table."""
    requirements = tuple(requirements)
    if len(requirements) > 1 and any(isinstance(each, AssertCreate) for each in requirements):
        raise InvalidUpdateError("assert-create must be the only requirement")
    for requirement in requirements:
        problem = _problem(document, requirement)
        if problem:
            raise CommitConflictError(f"Requirement failed: {problem}")


def _problem(
    document: RawDocument | None, requirement: TableRequirement | AssertViewUuid
) -> str | None:
    if isinstance(requirement, AssertCreate):
        return None if document is None else "table already exists"
    if document is None:
        return "table does not exist"
    return _CHECKS[type(requirement)](document, requirement)


def _uuid(field: str, words: str) -> Callable[[RawDocument, Any], str | None]:
    def check(document: RawDocument, requirement: AssertTableUuid | AssertViewUuid) -> str | None:
        found = document.get(field, str | None)
        if found is not None and found.lower() == requirement.uuid.lower():
            return None
        return f"{words} does not match: expected {found} != {requirement.uuid}"

    return check


def _ref(document: RawDocument, requirement: AssertRefSnapshotId) -> str | None:
    found: SnapshotRef | None = document.refs().get(requirement.ref)
    expected, name = requirement.snapshot_id, requirement.ref
    if found is None:
        return None if expected is None else f"branch or tag {name} is missing, expected {expected}"
    if expected is None:
        return f"{found.type} {name} was created concurrently"
    if found.snapshot_id == expected:
        return None
    return f"{found.type} {name} has changed: expected id {expected} != {found.snapshot_id}"


def _number(
    field: str, asserted: Callable[[Any], int], words: str
) -> Callable[[RawDocument, Any], str | None]:
    def check(document: RawDocument, requirement: Any) -> str | None:
        found = document.get(field, int | None) or 0
        expected = asserted(requirement)
        return None if found == expected else f"{words} changed: expected id {expected} != {found}"

    return check


_CHECKS: Mapping[type, Callable[[RawDocument, Any], str | None]] = {
    AssertTableUuid: _uuid("table-uuid", "UUID"),
    AssertViewUuid: _uuid("view-uuid", "view UUID"),
    AssertRefSnapshotId: _ref,
    AssertLastAssignedFieldId: _number(
        "last-column-id", lambda each: each.last_assigned_field_id, "last assigned field id"
    ),
    AssertCurrentSchemaId: _number(
        "current-schema-id", lambda each: each.current_schema_id, "current schema"
    ),
    AssertLastAssignedPartitionId: _number(
        "last-partition-id",
        lambda each: each.last_assigned_partition_id,
        "last assigned partition id",
    ),
    AssertDefaultSpecId: _number(
        "default-spec-id", lambda each: each.default_spec_id, "default partition spec"
    ),
    AssertDefaultSortOrderId: _number(
        "default-sort-order-id", lambda each: each.default_sort_order_id, "default sort order"
    ),
}
