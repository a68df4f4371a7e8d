"""What a snapshot of a Paimon table says, for tests: read by libraries, not by our own reader."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakesweep.paimon.model.layout import bucket_name
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonTable

_KINDS = ("ADD", "DELETE")


def newest(table: PaimonTable) -> PaimonSnapshot:
    """The newest snapshot of the main branch."""
    number = table.main.latest_id()
    assert number is not None
    return table.main.snapshot(number)


def records(table: PaimonTable, name: str) -> list[dict[str, Any]]:
    """The records of a manifest, a list or an index manifest."""
    data = table.read(table.layout.manifest(name))
    if data.startswith(b"ORC"):
        return list(orc.ORCFile(pa.BufferReader(data)).read().to_pylist())
    if data.startswith(b"PAR1"):
        return list(pq.read_table(pa.BufferReader(data)).to_pylist())
    return [record for record in fastavro.reader(io.BytesIO(data)) if isinstance(record, dict)]


def manifests(table: PaimonTable, snapshot: PaimonSnapshot) -> list[dict[str, Any]]:
    """The rows of the manifests of a snapshot: of its base list, then of its delta list."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return [row for name in lists for row in records(table, name)]


def live_files(table: PaimonTable, snapshot: PaimonSnapshot) -> dict[str, dict[str, Any]]:
    """The live files of a snapshot by their paths below the table, as Java merges entries."""
    live: dict[object, dict[str, Any]] = {}
    for manifest in manifests(table, snapshot):
        entries = records(table, manifest["_FILE_NAME"])
        counted = [sum(entry["_KIND"] == kind for entry in entries) for kind in (0, 1)]
        assert counted == [manifest["_NUM_ADDED_FILES"], manifest["_NUM_DELETED_FILES"]]
        for entry in entries:
            if entry["_KIND"] == 0:
                assert _identity(entry) not in live
                live[_identity(entry)] = entry
            else:
                del live[_identity(entry)]
    return {_path(table, entry): entry for entry in live.values()}


def delta_entries(table: PaimonTable, snapshot: PaimonSnapshot) -> list[tuple[object, ...]]:
    """(kind, path, bucket, buckets, level, rows) of each entry of a snapshot's own change."""
    return sorted(
        (
            _KINDS[entry["_KIND"]],
            _path(table, entry),
            entry["_BUCKET"],
            entry["_TOTAL_BUCKETS"],
            entry["_FILE"]["_LEVEL"],
            entry["_FILE"]["_ROW_COUNT"],
        )
        for entry in _delta(table, snapshot)
    )


def index_names(table: PaimonTable, snapshot: PaimonSnapshot) -> set[str]:
    """The names of the index files of a snapshot."""
    name = snapshot.index_manifest
    return set() if name is None else {row["_FILE_NAME"] for row in records(table, name)}


def _delta(table: PaimonTable, snapshot: PaimonSnapshot) -> Iterator[dict[str, Any]]:
    for manifest in records(table, snapshot.delta_manifest_list):
        yield from records(table, manifest["_FILE_NAME"])


def _identity(entry: dict[str, Any]) -> object:
    file = entry["_FILE"]
    names = ("_LEVEL", "_FILE_NAME", "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")
    parts = [file.get(name) for name in names]
    return (entry["_PARTITION"], entry["_BUCKET"], *parts, tuple(file["_EXTRA_FILES"]))


def _path(table: PaimonTable, entry: dict[str, Any]) -> str:
    layout = table.layout
    folder = layout.data_folder.removeprefix(layout.root)
    partition = layout.partitioning.path(layout.partitioning.decode(entry["_PARTITION"]))
    inside = f"{partition}/" if partition else ""
    return f"{folder}{inside}{bucket_name(entry['_BUCKET'])}/{entry['_FILE']['_FILE_NAME']}"
