"""The manifests of one snapshot, in their order, as rows that can be written again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.errors import TruncatedError
from lakesweep.paimon.entries import read_manifest, read_manifest_list
from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.owners import Role, lists_of
from lakesweep.paimon.row_formats import read_format, read_rows, widest
from lakesweep.paimon.rows import Row, RowFormat
from lakesweep.paimon.snapshots import Snapshot
from lakesweep.paimon.table import Branch, PaimonTable


@dataclass(frozen=True)
class ManifestState:
    """A snapshot, the rows of its base and then of its delta list, and how lists are written."""

    snapshot: Snapshot
    manifests: tuple[Row, ...]
    list_format: RowFormat


def read_state(branch: Branch, snapshot: Snapshot) -> ManifestState:
    """Read both lists of a snapshot; a missing one is an error, never an empty one."""
    rows: list[Row] = []
    formats = []
    for each in lists_of(Kind.SNAPSHOT, snapshot):
        if each.role is Role.CHANGELOG:
            continue
        path = branch.layout.manifest(each.name)
        data = branch.table.read(path)
        read_manifest_list(path, data, size_bytes=each.size_bytes, least=each.least)  # it checks
        formats.append(read_format(path, data))
        rows += read_rows(path, data)
    return ManifestState(snapshot, tuple(rows), widest(branch.table.address.path, formats))


def read_entries(table: PaimonTable, manifest: Row) -> Iterator[pa.RecordBatch]:
    """What a manifest adds and deletes, as FULL_ENTRIES; all of it, or an error."""
    path = table.layout.manifest(manifest["_FILE_NAME"])
    return read_manifest(
        path,
        table.read(path),
        size_bytes=manifest["_FILE_SIZE"],
        entries=entry_count(manifest),
        embedded_indexes=True,
    )


def read_entry_rows(table: PaimonTable, manifest: Row) -> tuple[RowFormat, list[Row]]:
    """The same as rows, with how they were written."""
    path = table.layout.manifest(manifest["_FILE_NAME"])
    data = table.read(path)
    rows = read_rows(path, data)
    if len(rows) != entry_count(manifest):
        raise TruncatedError(path, f"has {len(rows)} of {entry_count(manifest)} entries")
    return read_format(path, data), rows


def entry_count(manifest: Row) -> int:
    """How many entries a manifest has, as its list says."""
    added: int = manifest["_NUM_ADDED_FILES"]
    deleted: int = manifest["_NUM_DELETED_FILES"]
    return added + deleted


def identity(entry: Row) -> tuple[object, ...]:
    """What an ADD and a DELETE must have in common to be of one file."""
    file = entry["_FILE"]
    return (
        entry["_PARTITION"],
        entry["_BUCKET"],
        file["_LEVEL"],
        file["_FILE_NAME"],
        tuple(file.get("_EXTRA_FILES") or ()),
        file.get("_EMBEDDED_FILE_INDEX"),
        file.get("_EXTERNAL_PATH"),
    )


def total_rows(rows: Sequence[Row]) -> int:
    """How many rows the files of entries have."""
    return sum(entry["_FILE"]["_ROW_COUNT"] for entry in rows)
