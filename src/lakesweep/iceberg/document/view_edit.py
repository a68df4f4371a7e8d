"""Apply the updates of one commit to the metadata document of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from lakesweep.errors import InvalidUpdateError
from lakesweep.iceberg.document.fields import (
    DocumentEdit,
    Entry,
    RawDocument,
    applying,
    decode_sent,
    encode,
    plain,
)
from lakesweep.iceberg.document.properties import (
    assign_uuid,
    remove_properties,
    set_location,
    set_properties,
)
from lakesweep.iceberg.document.schemas import add_schema, resolve_id, with_field
from lakesweep.iceberg.document.updates import (
    LAST_ADDED,
    AddSchema,
    AddViewVersion,
    AssignUuid,
    RemoveProperties,
    SetCurrentViewVersion,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
    ViewUpdate,
)
from lakesweep.untrusted.documents import JsonObject, Long, parse_long

_VERSIONS, _CURRENT, _LOG = "versions", "current-version-id", "version-log"
_HISTORY = "version.history.num-entries"
_USUAL_HISTORY = 10
_DROP_DIALECT = "replace.drop-dialect.allowed"


class VersionHead(msgspec.Struct, frozen=True, rename="kebab"):
    """What a version of a view says of itself, without its SQL; also a line of the log."""

    version_id: int
    timestamp_ms: Long = 0
    schema_id: int = 0


class ViewEdit(DocumentEdit):
    """A document of a view, and what one request added to it."""

    def __init__(self, document: RawDocument, now_ms: int) -> None:
        super().__init__(document, now_ms)
        self.before: int | None = self.get(_CURRENT, int | None)
        self.last_schema: int | None = None
        self.last_version: int | None = None
        self.added: set[int] = set()

    def versions(self) -> list[Entry[VersionHead]]:
        return self.entries(_VERSIONS, VersionHead)

    def version(self, version_id: int | None) -> Entry[VersionHead] | None:
        """The version of an id, if it is there."""
        found = (each for each in self.versions() if each.head.version_id == version_id)
        return next(found, None)


def apply_view_updates(
    document: RawDocument, updates: Iterable[ViewUpdate], *, now_ms: int
) -> RawDocument:
    """The document after a commit; the same object if the updates change nothing."""
    with applying():
        edit = ViewEdit(document, now_ms)
        for update in updates:
            _APPLY[type(update)](edit, update)
        if not edit.changed:
            return document
        _check_dialects(edit)
        _forget_versions(edit)
        return edit.result()


def _add_schema(edit: ViewEdit, update: AddSchema) -> None:
    edit.last_schema = add_schema(edit, update)


def _upgrade(edit: ViewEdit, update: UpgradeFormatVersion) -> None:
    if update.format_version != edit.format_version:
        raise InvalidUpdateError(f"a view cannot have format version {update.format_version}")


def _add_version(edit: ViewEdit, update: AddViewVersion) -> None:
    """Add a version, unless there is an equal one. Its id stays if it is free."""
    raw = _checked_version(edit, update.view_version)
    meaning = _meaning(raw)
    for entry in edit.versions():
        if _meaning(entry.raw) == meaning:
            edit.last_version = entry.head.version_id
            return
    head: VersionHead = decode_sent("view version", raw, VersionHead)
    highest = max((entry.head.version_id for entry in edit.versions()), default=0)
    number = head.version_id if head.version_id > highest else highest + 1
    raw = with_field(raw, "version-id", number)
    head = msgspec.structs.replace(head, version_id=number)
    edit.put_entries(_VERSIONS, [*edit.versions(), Entry(head, raw)])
    edit.added.add(number)
    edit.last_version = number


def _checked_version(edit: ViewEdit, raw: Raw) -> Raw:
    version: JsonObject = decode_sent("view version", raw, JsonObject)
    names = _dialects(version)
    for name in names:
        if names.count(name) > 1:
            raise InvalidUpdateError(
                f"Invalid view version: Cannot add multiple queries for dialect {name}"
            )
    if version.get("schema-id") == LAST_ADDED:
        return with_field(raw, "schema-id", resolve_id("schema", LAST_ADDED, edit.last_schema))
    return raw


def _dialects(version: Mapping[str, Any]) -> list[str]:
    found = version.get("representations") or ()
    return [str(each.get("dialect", "")).lower() for each in found if each.get("type") == "sql"]


def _meaning(raw: Raw) -> tuple[Any, ...]:
    """What makes two versions equal: everything but their number and time."""
    version = plain(raw)
    names = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")
    return tuple(version.get(name) for name in names)


def _set_current(edit: ViewEdit, update: SetCurrentViewVersion) -> None:
    number = resolve_id("view version", update.view_version_id, edit.last_version)
    found = edit.version(number)
    if found is None:
        raise InvalidUpdateError(f"there is no view version {number}")
    if edit.get(_CURRENT, int | None) == number:
        return
    edit.put(_CURRENT, number)
    moment = found.head.timestamp_ms if number in edit.added else edit.now_ms
    line = Entry(
        VersionHead(number, moment), encode({"timestamp-ms": moment, "version-id": number})
    )
    edit.put_entries(_LOG, [*edit.entries(_LOG, VersionHead), line])


def _check_dialects(edit: ViewEdit) -> None:
    """A version that loses a dialect would break the engines that read the view in it."""
    before, after = edit.version(edit.before), edit.version(edit.get(_CURRENT, int | None))
    if before is None or after is None or edit.properties().get(_DROP_DIALECT) == "true":
        return
    lost = sorted({*_dialects(plain(before.raw))} - {*_dialects(plain(after.raw))})
    if lost:
        raise InvalidUpdateError(f"Cannot replace view due to loss of view dialects: {lost}")


def _forget_versions(edit: ViewEdit) -> None:
    """Keep the newest versions, those of this request and the current one; cut the log at gaps."""
    length = parse_long(edit.properties().get(_HISTORY, "")) or _USUAL_HISTORY
    numbers = sorted(entry.head.version_id for entry in edit.versions())
    kept = {*numbers[-max(1, length) :], *edit.added, edit.get(_CURRENT, int | None)}
    if not set(numbers) - kept:
        return
    edit.put_entries(_VERSIONS, [e for e in edit.versions() if e.head.version_id in kept])
    log: list[Entry[VersionHead]] = []
    for line in edit.entries(_LOG, VersionHead):
        log = [*log, line] if line.head.version_id in kept else []
    edit.keep_entries(_LOG, log, VersionHead)


_APPLY: Mapping[type, Callable[[ViewEdit, Any], None]] = {
    AssignUuid: partial(assign_uuid, name="view-uuid"),
    UpgradeFormatVersion: _upgrade,
    AddSchema: _add_schema,
    SetLocation: set_location,
    SetProperties: set_properties,
    RemoveProperties: remove_properties,
    AddViewVersion: _add_version,
    SetCurrentViewVersion: _set_current,
}
