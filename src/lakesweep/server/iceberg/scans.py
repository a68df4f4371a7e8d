"""Endpoints of scan planning.

A plan is finished when it is answered, and nothing of it is kept: its id and its tasks say all that
is needed to plan the same again, on any server. They name manifests by their numbers in the list of
a snapshot, so they lead to no file of another table.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from lakesweep.catalog.entities import EntityType
from lakesweep.catalog.warehouse.places import is_allowed
from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError, bad_request
from lakesweep.catalog.warehouse.warehouse import LoadedEntity
from lakesweep.decoding import typed_msgpack
from lakesweep.errors import (
    FormatError,
    InvalidUpdateError,
    MissingError,
    UnsupportedError,
)
from lakesweep.iceberg.scan.content_files import STATISTICS, ContentFile, FileContent
from lakesweep.iceberg.scan.planner import (
    ManifestGroup,
    ScanChoice,
    ScanPlanner,
    ScanRange,
    ScanTask,
)
from lakesweep.iceberg.scan.single_values import decode_bound, show_value
from lakesweep.server.iceberg.access import StorageCredential, access_for
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply
from lakesweep.untrusted.documents import JSON_ERRORS

#: A longer filter is not repeated in tasks: then one answer has everything.
_LONGEST_FILTER = 4_096
_LONGEST_TOKEN = 16_384
_MOST_TOKEN_BYTES = 2**16


class ScanBody(msgspec.Struct, frozen=True, rename="kebab"):
    """A scan as clients ask for it."""

    snapshot_id: int | None = None
    select: tuple[str, ...] | None = None
    filter: Raw = Raw(b"true")
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    stats_fields: tuple[str, ...] | None = None


class TaskBody(msgspec.Struct, frozen=True, rename="kebab"):
    """A part of a plan that is asked for."""

    plan_task: str


class ScanToken(msgspec.Struct, frozen=True, array_like=True):
    """A plan, or one group of it, in the text that clients send back."""

    table: int
    snapshot: int | None
    start: int | None
    filter: bytes
    statistics: tuple[str, ...]
    is_case_sensitive: bool
    uses_snapshot_schema: bool
    group: tuple[int, int] | None = None

    def text(self) -> str:
        """The same for a path or a body."""
        packed = zlib.compress(msgspec.msgpack.encode(self))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str, missing: ProblemType) -> ScanToken:
        """From such a text. WarehouseError if this service did not make it."""
        try:
            given = text[:_LONGEST_TOKEN] + "=" * (-len(text) % 4)
            packed = base64.b64decode(given, altchars=b"-_", validate=True)
            content = zlib.decompressobj().decompress(packed, _MOST_TOKEN_BYTES)
            return typed_msgpack(content, cls)
        except (ValueError, zlib.error, msgspec.MsgspecError):
            raise WarehouseError(missing, f"there is no plan {text[:80]}") from None


def plan(call: IcebergCall) -> IcebergReply:
    """Plan a scan."""
    given = call.decode(ScanBody)
    if given.start_snapshot_id is not None and given.end_snapshot_id is None:
        raise bad_request("end-snapshot-id is needed with start-snapshot-id")
    if given.snapshot_id is not None and given.end_snapshot_id is not None:
        raise bad_request("a scan has a snapshot-id or an end-snapshot-id, not both")
    loaded = call.warehouse.load(call.path, EntityType.TABLE)
    assert loaded.entity is not None
    snapshot = given.end_snapshot_id if given.snapshot_id is None else given.snapshot_id
    token = ScanToken(
        loaded.entity.id,
        loaded.file.document.current_snapshot if snapshot is None else snapshot,
        given.start_snapshot_id,
        bytes(given.filter),
        given.stats_fields or (),
        given.case_sensitive,
        given.use_snapshot_schema,
    )
    return _planned(call, loaded, token, given.select or ())


def fetch(call: IcebergCall) -> IcebergReply:
    """A plan again; it was finished when it was made."""
    loaded, token = _again(call, call.name("plan-id"), ProblemType.NO_SUCH_PLAN)
    return _planned(call, loaded, token)


def cancel(call: IcebergCall) -> IcebergReply:
    """Forget a plan, of which nothing is kept."""
    _again(call, call.name("plan-id"), ProblemType.NO_SUCH_PLAN)
    return IcebergReply()


def fetch_tasks(call: IcebergCall) -> IcebergReply:
    """The files of one part of a plan."""
    missing = ProblemType.NO_SUCH_PLAN_TASK
    text = call.decode(TaskBody).plan_task
    loaded, token = _again(call, text, missing)
    if token.group is None:
        raise WarehouseError(missing, f"there is no task {text[:80]}")
    try:
        planner = _planner(call, loaded, token, ())
        return _reply(planner, _collected(planner, [ManifestGroup(*token.group)]))
    except InvalidUpdateError:
        # The table lost the snapshot, or the columns.
        raise WarehouseError(missing, f"there is no task {text[:80]}") from None
    except (FormatError, MissingError) as error:
        raise _unreadable(error) from error


def _again(call: IcebergCall, text: str, missing: ProblemType) -> tuple[LoadedEntity, ScanToken]:
    loaded = call.warehouse.load(call.path, EntityType.TABLE)
    token = ScanToken.parse(text, missing)
    if loaded.entity is None or loaded.entity.id != token.table:
        raise WarehouseError(missing, f"there is no plan {text[:80]} of this table")
    return loaded, token


def _planned(
    call: IcebergCall, loaded: LoadedEntity, token: ScanToken, select: tuple[str, ...] = ()
) -> IcebergReply:
    try:
        planner = _planner(call, loaded, token, select)
        planner.check()
        groups = list(planner.groups())
        is_paged = len(token.filter) <= _LONGEST_FILTER
        now, later = (groups[:1], groups[1:]) if is_paged else (groups, [])
        tasks = _collected(planner, now)
    except InvalidUpdateError as error:
        raise bad_request(error.message) from None
    except (FormatError, MissingError) as error:
        raise _unreadable(error) from error
    more = [msgspec.structs.replace(token, group=(each.first, each.end)) for each in later]
    access = access_for(call, loaded)
    vended = (StorageCredential(access.prefix, access.credentials),) if access.credentials else None
    text = token.text() if is_paged else None
    return _reply(
        planner,
        tasks,
        {
            "status": "completed",
            "plan-id": text,
            "plan-tasks": [each.text() for each in more],
            "storage-credentials": vended,
        },
    )


def _unreadable(error: FormatError | MissingError) -> WarehouseError:
    """A table that is damaged, or written in a way that is not known here."""
    is_strange = isinstance(error, UnsupportedError)
    type_ = ProblemType.UNSUPPORTED if is_strange else ProblemType.NOT_FOUND
    return WarehouseError(type_, f"the scan cannot be planned: {error.message}")


def _planner(
    call: IcebergCall, loaded: LoadedEntity, token: ScanToken, select: tuple[str, ...]
) -> ScanPlanner:
    catalog = call.warehouse.catalog

    def check_path(path: str) -> None:
        # Anybody who may write metadata could name any file in it.
        if not is_allowed(catalog, path):
            raise WarehouseError(
                ProblemType.FORBIDDEN, f"{path[:200]} lies outside of what the catalog allows"
            )

    try:
        filter_ = msgspec.json.decode(token.filter)
    except JSON_ERRORS as error:
        raise bad_request(f"Malformed filter: {error}") from None
    return ScanPlanner(
        loaded.file.document,
        call.around.app.stores,
        check_path,
        ScanRange(token.snapshot, token.start),
        ScanChoice(
            True if filter_ is None else filter_,
            select,
            token.statistics,
            token.is_case_sensitive,
            token.uses_snapshot_schema,
        ),
    )


def _collected(planner: ScanPlanner, groups: Iterable[ManifestGroup]) -> list[ScanTask]:
    return [task for group in groups for task in planner.tasks(group)]


def _reply(
    planner: ScanPlanner, tasks: list[ScanTask], more: Mapping[str, Any] | None = None
) -> IcebergReply:
    kinds = dict(planner.names.fields.values())
    wanted = {number: kinds[number] for number in planner.statistics}
    deletes: dict[tuple[str, int | None], int] = {}
    shown: list[dict[str, Any]] = []
    views = []
    for task in tasks:
        references = []
        for file in task.deletes:
            key = (file.path, file.offset)
            if key not in deletes:
                deletes[key] = len(shown)
                shown.append(_file_body(file, {}))
            references.append(deletes[key])
        view = {
            "data-file": _file_body(task.data, wanted),
            "delete-file-references": references or None,
            "residual-filter": task.residual,
        }
        views.append(_given(view))
    answer = {"plan-tasks": [], "file-scan-tasks": views, "delete-files": shown, **(more or {})}
    return IcebergReply(msgspec.json.encode(_given(answer)))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value: clients do not expect nulls."""
    return {name: value for name, value in fields.items() if value is not None}


_CONTENTS = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}


def _file_body(file: ContentFile, statistics: Mapping[int, str]) -> dict[str, Any]:
    layout = file.layout
    body = {
        "content": _CONTENTS[file.content],
        "spec-id": layout.spec_id,
        "partition": [
            show_value(column.kind, value)
            for column, value in zip(layout.columns, file.partition, strict=True)
        ],
        "file-path": file.path,
        "file-format": file.format.lower(),
        "file-size-in-bytes": file.size_bytes,
        "record-count": file.records,
        "key-metadata": None if file.key_metadata is None else file.key_metadata.hex(),
        "split-offsets": file.split_offsets,
        "sort-order-id": file.sort_order,
        "equality-ids": file.equality_ids,
        "first-row-id": file.first_row,
        "referenced-data-file": file.referenced,
        "content-offset": file.offset,
        "content-size-in-bytes": file.length,
    }
    for name in STATISTICS if statistics else ():
        found = _by_column(name, file.statistics.get(name, {}), statistics)
        body[name.replace("_", "-")] = found
    return _given(body)


def _by_column(
    name: str, found: Mapping[int, Any], wanted: Mapping[int, str]
) -> dict[str, list[Any]] | None:
    chosen = {number: found[number] for number in sorted(wanted) if number in found}
    if not chosen:
        return None
    if name.endswith("_bounds"):
        chosen = {
            number: show_value(wanted[number], decode_bound(wanted[number], value))
            for number, value in chosen.items()
        }
    return {"keys": list(chosen), "values": list(chosen.values())}
