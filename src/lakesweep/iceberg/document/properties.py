"""Edits of properties and the location, which tables and views have in common."""

from __future__ import annotations

from msgspec import Raw

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import DocumentEdit, encode
from lakesweep.iceberg.document.updates import (
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
)

#: Engines compute these, and show them among the properties. They are never stored.
_COMPUTED = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
_KEY_ID = "encryption.key-id"


def set_properties(edit: DocumentEdit, update: SetProperties) -> None:
    """Set properties; the others keep their place and spelling."""
    values = {name: value for name, value in update.values.items() if name not in _COMPUTED}
    before = edit.properties()
    if before.get(_KEY_ID, values.get(_KEY_ID)) != values.get(_KEY_ID, before.get(_KEY_ID)):
        raise InvalidUpdateError(f"{_KEY_ID} cannot change once it is set")
    new = {name: value for name, value in values.items() if before.get(name) != value}
    if new:
        edit.put("properties", {**_stored(edit), **{name: encode(v) for name, v in new.items()}})


def remove_properties(edit: DocumentEdit, update: RemoveProperties) -> None:
    """Remove properties; those that are not set are ignored."""
    stored = _stored(edit)
    if _KEY_ID in update.names & stored.keys():
        raise InvalidUpdateError(f"{_KEY_ID} cannot be removed once it is set")
    if update.names & stored.keys():
        kept = {name: raw for name, raw in stored.items() if name not in update.names}
        edit.put("properties", kept)


def assign_uuid(edit: DocumentEdit, update: AssignUuid, name: str) -> None:
    """Set the id of a new table or view. That of an existing one never changes."""
    found: str | None = edit.get(name, str | None)
    if found is not None and found.lower() != update.uuid.lower():
        raise InvalidUpdateError("Cannot reassign uuid")
    if found is None:
        edit.put(name, update.uuid)


def set_location(edit: DocumentEdit, update: SetLocation) -> None:
    """Move the base of new files. Nothing that exists is moved."""
    edit.put("location", update.location.rstrip("/") or update.location)


def _stored(edit: DocumentEdit) -> dict[str, Raw]:
    return edit.get("properties", dict[str, Raw] | None) or {}
