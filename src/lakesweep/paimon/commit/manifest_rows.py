"""The manifests of a snapshot as rows, and new manifests written from such rows.

New files have unique names and are orphans until a snapshot names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import copysign
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakesweep.errors import LakesweepError, TruncatedError
from lakesweep.paimon.manifests.entries import ADD, DELETE, read_manifest_list
from lakesweep.paimon.manifests.named_files import ManifestFile, read_entries
from lakesweep.paimon.manifests.row_formats import Row, RowFormat, read_format, read_rows, widest
from lakesweep.paimon.model.binary_row import Value, encode_row
from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.partitioning import Partitioning
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.owners import ListRole, lists_of
from lakesweep.storage.address import parse


@dataclass(frozen=True)
class ManifestState:
    """A snapshot, the rows of its base list and then of its delta list, and their format."""

    snapshot: PaimonSnapshot
    manifests: tuple[Row, ...]
    list_format: RowFormat


def read_state(branch: PaimonBranch, snapshot: PaimonSnapshot) -> ManifestState:
    """Read both lists of a snapshot; a missing list is an error, not an empty list."""
    rows: list[Row] = []
    formats = []
    for each in lists_of(PaimonKind.SNAPSHOT, snapshot):
        if each.role is ListRole.CHANGELOG:
            continue
        path = branch.layout.manifest(each.name)
        data = branch.table.read(path)
        read_manifest_list(path, data, size_bytes=each.size_bytes, least=each.least)  # validates
        formats.append(read_format(path, data))
        rows += read_rows(path, data)
    return ManifestState(snapshot, tuple(rows), widest(branch.table.address.path, formats))


def read_row_entries(table: PaimonTable, manifest: Row) -> Iterator[pa.RecordBatch]:
    """The entries of a manifest as FULL_ENTRIES: all of them, or an error."""
    added, deleted = manifest["_NUM_ADDED_FILES"], manifest["_NUM_DELETED_FILES"]
    file = ManifestFile(manifest["_FILE_NAME"], manifest["_FILE_SIZE"], added, deleted, ())
    return read_entries(table, file)


def read_entry_rows(table: PaimonTable, manifest: Row) -> tuple[RowFormat, list[Row]]:
    """The entries of a manifest as rows, with their format."""
    path = table.layout.manifest(manifest["_FILE_NAME"])
    data = table.read(path)
    rows = read_rows(path, data)
    if len(rows) != entry_count(manifest):
        raise TruncatedError(path, f"has {len(rows)} of {entry_count(manifest)} entries")
    return read_format(path, data), rows


def entry_count(manifest: Row) -> int:
    """How many entries a manifest has, according to its list."""
    added: int = manifest["_NUM_ADDED_FILES"]
    deleted: int = manifest["_NUM_DELETED_FILES"]
    return added + deleted


#: The columns of FULL_ENTRIES that an ADD and a DELETE of the same file have in common.
_IDENTITY = (
    "partition", "bucket", "level", "name", "extra_files", "embedded_index", "external_path",
)  # fmt: skip


def batch_identities(entries: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    """The identity of each entry of a batch."""
    for values in zip(*(entries[name].to_pylist() for name in _IDENTITY), strict=True):
        yield tuple(tuple(value) if isinstance(value, list) else value for value in values)


def row_identity(entry: Row) -> tuple[object, ...]:
    """The same fields of an entry that is a row."""
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
    """How many rows the files of entries hold."""
    return sum(entry["_FILE"]["_ROW_COUNT"] for entry in rows)


_TARGET_BYTES = 8 << 20


class ManifestWriter:
    """Writes manifests and their lists under unique names.

    They are orphans until a snapshot names them. `remove` deletes them, and is only for a commit
    that certainly failed: files that may have been committed must stay.
    """

    def __init__(self, branch: PaimonBranch) -> None:
        self._branch = branch
        self._token = uuid4()
        self._numbers: dict[str, count[int]] = {}
        self._written: list[str] = []

    def manifests(self, entries: Sequence[Row], how: RowFormat) -> list[Row]:
        """Write entries as manifests of the table's target size; returns the rows of their list."""
        options = self._branch.layout.options
        target = options.size_bytes("manifest.target-file-size", _TARGET_BYTES)
        data = how.encode(entries)
        parts = min(-(-len(data) // max(target, 1)), len(entries))
        if parts <= 1:
            return [self._manifest(entries, data)]
        size = -(-len(entries) // parts)
        chunks = [entries[at : at + size] for at in range(0, len(entries), size)]
        return [self._manifest(chunk, how.encode(chunk)) for chunk in chunks]

    def manifest_list(self, rows: Sequence[Row], how: RowFormat) -> tuple[str, int]:
        """Write a list; returns its name and size."""
        data = how.encode(rows)
        return self._write("manifest-list", data), len(data)

    def index_manifest(self, rows: Sequence[Row], how: RowFormat) -> str:
        """Write an index manifest; returns its name."""
        return self._write("index-manifest", how.encode(rows))

    def remove(self) -> None:
        """Delete the written files; those that cannot be deleted stay as orphans."""
        for path in self._written:
            address = parse(path)
            with suppress(LakesweepError):
                self._branch.table.stores.open(address).delete([address.key])
        self._written.clear()

    def _manifest(self, entries: Sequence[Row], data: bytes) -> Row:
        name = self._write("manifest", data)
        return list_row(name, len(data), entries, self._branch.layout.partitioning)

    def _write(self, kind: str, data: bytes) -> str:
        number = next(self._numbers.setdefault(kind, count()))
        name = f"{kind}-{self._token}-{number}"
        path = self._branch.layout.manifest(name)
        address = parse(path)
        self._written.append(path)  # first: a write without a response may have succeeded
        self._branch.table.stores.open(address).write(address.key, data)
        return name


_VERSION = 2


def list_row(name: str, size_bytes: int, entries: Sequence[Row], partitioning: Partitioning) -> Row:
    """The list row of a manifest with these entries, at least one."""
    files = [entry["_FILE"] for entry in entries]
    buckets = [entry["_BUCKET"] for entry in entries]
    totals = {entry.get("_TOTAL_BUCKETS") for entry in entries}
    levels = [file["_LEVEL"] for file in files]
    first_row, last_row = _row_ids(files)
    return {
        "_VERSION": _VERSION,
        "_FILE_NAME": name,
        "_FILE_SIZE": size_bytes,
        "_NUM_ADDED_FILES": sum(entry["_KIND"] == ADD for entry in entries),
        "_NUM_DELETED_FILES": sum(entry["_KIND"] == DELETE for entry in entries),
        "_PARTITION_STATS": _partition_stats(entries, partitioning),
        "_SCHEMA_ID": max(file["_SCHEMA_ID"] for file in files),
        "_MIN_BUCKET": min(buckets),
        "_MAX_BUCKET": max(buckets),
        "_MIN_LEVEL": min(levels),
        "_MAX_LEVEL": max(levels),
        "_MIN_ROW_ID": first_row,
        "_MAX_ROW_ID": last_row,
        "_TOTAL_BUCKETS": totals.pop() if len(totals) == 1 else None,
    }


def _partition_stats(entries: Iterable[Row], partitioning: Partitioning) -> Row:
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry["_PARTITION"]] = counts.get(entry["_PARTITION"], 0) + 1
    rows = [(partitioning.decode(data), count) for data, count in counts.items()]
    columns = [[(row[at], count) for row, count in rows] for at in range(len(partitioning.keys))]
    present = [[value for value, _ in column if value is not None] for column in columns]
    return {
        "_MIN_VALUES": encode_row(
            [min(values, key=_order, default=None) for values in present], partitioning.types
        ),
        "_MAX_VALUES": encode_row(
            [max(values, key=_order, default=None) for values in present], partitioning.types
        ),
        "_NULL_COUNTS": [
            sum(count for value, count in column if value is None) for column in columns
        ],
    }


def _order(value: Value) -> Any:
    """Java's order: NaN is the greatest, and -0.0 is less than 0.0."""
    sign = copysign(1, value) if isinstance(value, float) else 0
    return (value != value, value, sign)  # noqa: PLR0124


def _row_ids(files: Sequence[Row]) -> tuple[int | None, int | None]:
    """The range of row ids of files; none if one of them does not track rows."""
    firsts: list[Any] = [file.get("_FIRST_ROW_ID") for file in files]
    if None in firsts:
        return None, None
    lasts = [first + file["_ROW_COUNT"] - 1 for first, file in zip(firsts, files, strict=True)]
    return min(firsts), max(lasts)
