"""The figures of one table in a scan, and what they say about its upkeep."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

#: A metadata file of this size slows down every commit and every plan of a query.
LARGE_METADATA_BYTES = 8 * 2**20
#: A table with at least this many small files, and this share of them, is worth compacting.
_MANY_SMALL_FILES = 10
_SMALL_SHARE = 0.5


class TableFinding(StrEnum):
    """What a scan says about a table, in the order in which it is shown."""

    UNREADABLE = "unreadable"
    INCOMPLETE = "partly unreadable"
    NEVER_EXPIRED = "never expired"
    OVERDUE = "snapshots overdue"
    SMALL_FILES = "small files"
    DELETE_FILES = "delete files"
    DANGLING = "dangling deletes"
    LARGE_METADATA = "large metadata"
    SHARED_FOLDER = "shares a folder"
    NO_STATISTICS = "no statistics"


class MeasuredBy(StrEnum):
    """What was read: all snapshots, the current one, or only the summaries that writers left."""

    ALL = "all"
    CURRENT = "current"
    SUMMARIES = "summaries"


class TableFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One table. A figure is None if the metadata do not have it.

    `old_bytes` is held by nothing but snapshots that are not the head of a branch or tag: what an
    expiry can free at most. `overdue_snapshots` would expire by the table's own rules.
    `free_bytes` is what upkeep could free, and what tables are sorted by.
    """

    table: str
    format: str
    measured_by: MeasuredBy | None = None
    reason: str | None = None
    metadata_bytes: int | None = None
    metadata_log: int | None = None
    snapshots: int | None = None
    overdue_snapshots: int | None = None
    oldest_snapshot: str | None = None
    refs: int | None = None
    manifests: int | None = None
    data_files: int | None = None
    data_bytes: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    delete_bytes: int | None = None
    dangling_deletes: int | None = None
    dangling_bytes: int | None = None
    old_files: int | None = None
    old_bytes: int | None = None
    free_bytes: int = 0
    has_statistics: bool | None = None
    is_ever_expired: bool | None = None
    folders: tuple[str, ...] = ()
    findings: tuple[TableFinding, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read."""
        return self.reason is None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The order of a scan: what could be freed, then what slows readers down."""
        return (
            -self.free_bytes,
            -(self.small_files or 0),
            -(self.overdue_snapshots or 0),
            -(self.metadata_bytes or 0),
            self.table,
        )


def unreadable(table: str, format_: str, reason: str) -> TableFigures:
    """A table of which nothing could be read."""
    return TableFigures(
        table=table, format=format_, reason=reason, findings=(TableFinding.UNREADABLE,)
    )


def judged(figures: TableFigures, *, shares_folder: bool = False) -> TableFigures:
    """The same figures, with what they say."""
    if TableFinding.UNREADABLE in figures.findings:
        return figures
    small, files = figures.small_files or 0, figures.data_files or 0
    overdue = bool(figures.overdue_snapshots)
    holds = {
        TableFinding.INCOMPLETE: figures.reason is not None,
        TableFinding.NEVER_EXPIRED: overdue and figures.is_ever_expired is False,
        TableFinding.OVERDUE: overdue,
        TableFinding.SMALL_FILES: small >= max(_MANY_SMALL_FILES, _SMALL_SHARE * files),
        TableFinding.DELETE_FILES: bool(figures.delete_files),
        TableFinding.DANGLING: bool(figures.dangling_deletes),
        TableFinding.LARGE_METADATA: (figures.metadata_bytes or 0) >= LARGE_METADATA_BYTES,
        TableFinding.SHARED_FOLDER: shares_folder,
        TableFinding.NO_STATISTICS: figures.has_statistics is False and bool(files),
    }
    found = tuple(finding for finding, is_so in holds.items() if is_so)
    free = (figures.old_bytes or 0) + (figures.dangling_bytes or 0)
    return msgspec.structs.replace(figures, findings=found, free_bytes=free)
