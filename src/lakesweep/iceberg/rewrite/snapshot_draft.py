"""A new snapshot of a table: its manifests and list are written, and a commit would add it.

What was written and is not committed is removed again. The new snapshot follows the head of `main`,
with the next sequence number; `main` keeps its own retention. In v3, data manifests that do not yet
say where the ids of their rows begin get a beginning, as every first snapshot after an upgrade has
to do.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec

from lakesweep.errors import DamagedError, LakesweepError, RefusedError, UnsupportedError
from lakesweep.iceberg.commits.table_handle import LoadedTable, MetadataChange
from lakesweep.iceberg.document.fields import MAIN, plain
from lakesweep.iceberg.document.updates import AddSnapshot, SetSnapshotRef
from lakesweep.iceberg.metadata import read_file
from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import (
    EntryStatus,
    Manifest,
    ManifestEntry,
    ManifestForm,
    encode_manifest,
    list_row,
    read_manifest_entries,
)
from lakesweep.iceberg.rewrite.manifest_list import (
    IcebergManifestList,
    ManifestRow,
    encode_list,
    read_list,
)
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores
from lakesweep.untrusted.documents import JsonObject

_NEWEST = 3
_SEQUENCES_SINCE, _ROW_IDS_SINCE = 2, 3
_METADATA_PATH = "write.metadata.path"


@dataclass(frozen=True)
class TableHead:
    """The current snapshot of a table, with the rows of its manifest list.

    The rows have all counts, and in v3 all data manifests say where their row ids begin; `next_row`
    is the first id that is still free then.
    """

    table: LoadedTable
    snapshot: Mapping[str, Any]
    list: IcebergManifestList
    rows: Sequence[ManifestRow]
    next_row: int | None

    @property
    def version(self) -> int:
        return self.table.document.format_version

    @property
    def properties(self) -> Mapping[str, str]:
        return self.table.document.properties()

    @property
    def summary(self) -> Mapping[str, str]:
        return self.snapshot.get("summary") or {}

    def read(self, row: ManifestRow) -> Manifest:
        """A manifest of this snapshot, with all its entries."""
        stores = self.table.stores
        data = read_file(stores, row[lists.PATH])
        return read_manifest_entries(row, data, self.version, stores.limits)

    def manifests(self, content: int) -> Iterable[ManifestRow]:
        """The manifests of data or of deletes."""
        return (row for row in self.rows if (row.get(lists.CONTENT) or 0) == content)


def load_head(table: LoadedTable) -> TableHead | None:
    """The head of `main`; None if the table is empty."""
    document = table.document
    if document.format_version > _NEWEST:
        raise UnsupportedError(table.location, f"has format version {document.format_version}")
    main = document.refs().get(MAIN)
    if main is None:
        return None
    snapshots: list[Any] = document.get("snapshots", list[JsonObject] | None) or []
    found = next((each for each in snapshots if each.get("snapshot-id") == main.snapshot_id), None)
    if found is None:
        raise DamagedError(table.location, f"main points to {main.snapshot_id}, which is not there")
    path = found.get("manifest-list")
    if not path:
        raise UnsupportedError(table.location, "its current snapshot embeds its manifests")
    read = read_list(path, read_file(table.stores, path), table.stores.limits)
    rows = [_counted(table, dict(row)) for row in read.rows]
    next_row = None
    if document.format_version >= _ROW_IDS_SINCE:
        next_row = _give_row_ids(rows, int(document.get("next-row-id", int | None) or 0))
    return TableHead(table, found, read, rows, next_row)


def _counted(table: LoadedTable, row: ManifestRow) -> ManifestRow:
    """A row with the counts that v1 writers may leave out."""
    if all(row.get(key) is not None for key in lists.COUNTS):
        return _numbered(row)
    version = table.document.format_version
    data = read_file(table.stores, row[lists.PATH])
    found = read_manifest_entries(row, data, version, table.stores.limits)
    entries = found.entries
    statuses = (EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED)
    for status, files, rows in zip(statuses, lists.COUNTS[:3], lists.COUNTS[3:], strict=True):
        some = [entry for entry in entries if entry.status is status]
        row[files], row[rows] = len(some), sum(entry.facts.records for entry in some)
    return _numbered(row)


def _numbered(row: ManifestRow) -> ManifestRow:
    for key in (lists.CONTENT, lists.SEQUENCE, lists.MIN_SEQUENCE):
        row[key] = row.get(key) or 0
    return row


def _give_row_ids(rows: Iterable[ManifestRow], next_row: int) -> int:
    for row in rows:
        if row[lists.CONTENT] == lists.DATA and row.get(lists.FIRST_ROW_ID) is None:
            row[lists.FIRST_ROW_ID] = next_row
            next_row += row[lists.ADDED_ROWS] + row[lists.EXISTING_ROWS]
    return next_row


@dataclass
class SnapshotDraft:
    """The files of a snapshot that is not committed yet."""

    head: TableHead
    now_ms: int
    snapshot: int = field(init=False)
    written: list[str] = field(default_factory=list)
    new_uuid: Callable[[], object] = uuid4

    def __post_init__(self) -> None:
        known = {each.snapshot_id for each in self.head.table.document.snapshots()}
        self.snapshot = secrets.randbits(63) or 1
        while self.snapshot in known:
            self.snapshot = secrets.randbits(63) or 1
        self._name = str(self.new_uuid())

    @property
    def sequence(self) -> int:
        last = self.head.table.document.get("last-sequence-number", int | None) or 0
        return int(last) + 1 if self.head.version >= _SEQUENCES_SINCE else 0

    def write_manifest(self, form: ManifestForm, entries: Sequence[ManifestEntry]) -> ManifestRow:
        """Write a manifest; the row of it for the list."""
        data = encode_manifest(form, entries)
        path = f"{self._folder}/{self._name}-m{len(self.written)}.avro"
        self._write(path, data)
        row = list_row(form, entries, path, len(data), self.snapshot, self.sequence)
        if self.head.version >= _ROW_IDS_SINCE and form.content == lists.DATA:
            # All entries have ids of their own, so this gives none out.
            row[lists.FIRST_ROW_ID] = self.head.next_row
        return row

    def change(
        self, rows: Iterable[ManifestRow], operation: str, summary: Mapping[str, str]
    ) -> MetadataChange:
        """Write the list, and give the change that adds the snapshot to `main`."""
        head, document = self.head, self.head.table.document
        parent = head.snapshot["snapshot-id"]
        facts: dict[str, int | None] = {"snapshot-id": self.snapshot, "parent-snapshot-id": parent}
        if head.version >= _SEQUENCES_SINCE:
            facts["sequence-number"] = self.sequence
        path = f"{self._folder}/snap-{self.snapshot}-1-{self._name}.avro"
        self._write(path, encode_list(rows, head.list, head.version, facts))
        latest = max(self.now_ms, int(head.snapshot.get("timestamp-ms") or 0))
        added: JsonObject = {
            **facts,
            "timestamp-ms": max(latest, document.get("last-updated-ms", int | None) or 0),
            "summary": {"operation": operation, **summary},
            "manifest-list": path,
        }
        schema = document.get("current-schema-id", int | None)
        if schema is not None:
            added["schema-id"] = schema
        if head.version >= _ROW_IDS_SINCE:
            first = int(document.get("next-row-id", int | None) or 0)
            added["first-row-id"] = first
            added["added-rows"] = (head.next_row or 0) - first
        raw = msgspec.Raw(msgspec.json.encode(added))
        main = document.refs()[MAIN]
        moved = SetSnapshotRef(
            ref_name=MAIN,
            type=main.type,
            snapshot_id=self.snapshot,
            min_snapshots_to_keep=main.min_snapshots_to_keep,
            max_snapshot_age_ms=main.max_snapshot_age_ms,
            max_ref_age_ms=main.max_ref_age_ms,
        )
        return MetadataChange.of(document, (AddSnapshot(snapshot=raw), moved))

    def discard(self) -> None:
        """Remove what was written: nothing names it."""
        for path in self.written:
            address = parse(path)
            try:
                list(self._stores.open(address).delete([address.key]))
            except LakesweepError:  # a sweep finds what is left over
                continue
        self.written.clear()

    @property
    def _stores(self) -> Stores:
        return self.head.table.stores

    @property
    def _folder(self) -> str:
        own = self.head.properties.get(_METADATA_PATH)
        location = self.head.table.document.get("location", str | None)
        if own is None and location is None:
            raise RefusedError("no-location", f"{self.head.table.name} has no location")
        return (own or f"{location.rstrip('/')}/metadata").rstrip("/")

    def _write(self, path: str, data: bytes) -> None:
        address = parse(path)
        self.written.append(path)
        self._stores.open(address).write(address.key, data)


def carried_totals(summary: Mapping[str, str], removed: Mapping[str, int]) -> dict[str, str]:
    """The totals of a snapshot, less what was removed; those that are not known are left out."""
    found: dict[str, str] = {}
    for name, text in summary.items():
        if name.startswith("total-") and str(text).isdigit():
            found[name] = str(max(0, int(text) - removed.get(name, 0)))
    return found


def spec_fields(table: LoadedTable) -> dict[int, list[JsonObject]]:
    """The fields of each partition spec."""
    raw = table.document.fields.get("partition-specs")
    if raw is None:
        fields = table.document.fields.get("partition-spec")
        return {0: [] if fields is None else plain(fields)}
    return {int(each["spec-id"]): each["fields"] for each in plain(raw)}
