"""Snapshots, tags, changelogs and consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from lakesweep.errors import DamagedError
from lakesweep.paimon.model.schemas import check_name, decode_document, refuse_newer
from lakesweep.untrusted.documents import Long, Millis, PathText, Size
from lakesweep.untrusted.limits import reading

NEWEST_VERSION = 3


class CommitKind(StrEnum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True)
class PaimonSnapshot:
    """One commit. `raw` is the whole document, so that nothing is lost of what is rewritten."""

    id: int
    version: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    changelog_manifest_list: str | None
    index_manifest: str | None
    statistics: str | None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    watermark: int | None
    total_record_count: int | None
    delta_record_count: int | None
    next_row_id: int | None
    properties: Mapping[str, str]
    base_manifest_list_size: int | None
    delta_manifest_list_size: int | None
    changelog_manifest_list_size: int | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def delta_rows(self) -> int:
        """How many rows more there are since the commit before; 0 where that is not known."""
        return self.delta_record_count or 0

    @property
    def base_rows(self) -> int:
        """How many rows there were before this commit; 0 where that is not known."""
        if self.total_record_count is None or self.delta_record_count is None:
            return 0
        return self.total_record_count - self.delta_record_count


@dataclass(frozen=True, slots=True)
class PaimonTag:
    """A snapshot that stays under a name.

    `created` is the writer's local time, as written: it names no zone. `modified` is the time of
    the file, which is the age of a tag that says none itself.
    """

    name: str
    snapshot: PaimonSnapshot
    created: datetime | None
    retained: timedelta | None
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader, and the snapshot at which it continues."""

    name: str
    next_snapshot: int
    modified: datetime | None


class _Snapshot(msgspec.Struct, rename="camel"):
    id: Long
    schema_id: Long
    base_manifest_list: PathText
    delta_manifest_list: PathText
    commit_user: str
    commit_identifier: Long
    commit_kind: CommitKind
    time_millis: Millis
    version: Long | None = None
    changelog_manifest_list: PathText | None = None
    index_manifest: PathText | None = None
    statistics: PathText | None = None
    watermark: Long | None = None
    total_record_count: Long | None = None
    delta_record_count: Long | None = None
    next_row_id: Long | None = None
    properties: dict[str, str] | None = None
    base_manifest_list_size: Size | None = None
    delta_manifest_list_size: Size | None = None
    changelog_manifest_list_size: Size | None = None


#: The fields that name files.
_FILES = (
    "base_manifest_list",
    "delta_manifest_list",
    "changelog_manifest_list",
    "index_manifest",
    "statistics",
)


class _Tag(_Snapshot, rename="camel"):
    tag_create_time: list[Long] | None = None
    tag_time_retained: float | None = None


class _Consumer(msgspec.Struct, rename="camel"):
    next_snapshot: Long


class _Versioned(msgspec.Struct):
    version: Long | None = None


def parse_snapshot(path: str, data: bytes) -> PaimonSnapshot:
    """Decode the file of a snapshot or of a changelog."""
    return _snapshot(path, data, _Snapshot)[0]


def parse_tag(path: str, data: bytes, name: str, modified: datetime | None) -> PaimonTag:
    """Decode the file of a tag."""
    snapshot, document = _snapshot(path, data, _Tag)
    seconds = document.tag_time_retained
    with reading(path):
        return PaimonTag(
            name,
            snapshot,
            created=_local_time(path, document.tag_create_time),
            retained=None if seconds is None else timedelta(seconds=seconds),
            modified=modified,
        )


def parse_consumer(path: str, data: bytes, name: str, modified: datetime | None) -> Consumer:
    """Decode the file of a consumer."""
    return Consumer(name, decode_document(path, data, _Consumer)[0].next_snapshot, modified)


def encode_snapshot(document: Mapping[str, Any]) -> bytes:
    """The file of a snapshot, a tag or a changelog, from its fields as Paimon names them."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _snapshot(path: str, data: bytes, kind: type[Any]) -> tuple[PaimonSnapshot, Any]:
    # The version first: what a newer one holds need not look like anything that is known.
    refuse_newer(path, decode_document(path, data, _Versioned)[0].version or 1, NEWEST_VERSION)
    document, raw = decode_document(path, data, kind)
    values = {name: getattr(document, name) for name in _Snapshot.__struct_fields__}
    for name in _FILES:
        check_name(path, values[name])
    values["version"] = document.version or 1
    values["properties"] = document.properties or {}
    return PaimonSnapshot(**values, raw=raw), document


def _local_time(path: str, parts: list[int] | None) -> datetime | None:
    """Java's array of year, month, day, hour, minute and, where they are not 0, second, nanos."""
    if parts is None:
        return None
    try:
        year, month, day, hour, minute, second, nanos = (*parts, 0, 0, 0, 0)[:7]
        return datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedError(path, f"has no time of creation: {error}") from error


#: From the first zone of the world to the last.
ZONES_APART = timedelta(hours=26)
