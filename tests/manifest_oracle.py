"""What snapshots of tables hold, read with fastavro alone: an oracle for what is rewritten."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro

Read = Callable[[str], bytes]


def document_at(read: Read, path: str) -> dict[str, Any]:
    """A metadata file as plain JSON."""
    data = read(path)
    found: dict[str, Any] = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return found


def head_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """The current snapshot."""
    current = document.get("current-snapshot-id")
    return next((each for each in document["snapshots"] if each["snapshot-id"] == current), None)


def listed(read: Read, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """The manifests of a snapshot."""
    return list(_records(read(snapshot["manifest-list"])))


def live_files(read: Read, snapshot: dict[str, Any], version: int) -> dict[str, Any]:
    """Each live file with all that a reader takes from its entry, inherited values included."""
    found: dict[str, Any] = {}
    for row in listed(read, snapshot):
        next_row = row.get("first_row_id")
        for entry in _records(read(row["manifest_path"])):
            if entry["status"] == 2:
                continue
            file = dict(entry["data_file"])
            is_added, listed_as = entry["status"] == 1, row.get("sequence_number") or 0
            sequence = entry.get("sequence_number")
            if sequence is None:
                assert is_added or listed_as == 0, (row, entry)
                sequence = listed_as
            first = file.pop("first_row_id", None)
            if first is None and next_row is not None and version >= 3 and not row["content"]:
                first, next_row = next_row, next_row + file["record_count"]
            written = entry["snapshot_id"] or row["added_snapshot_id"]
            spec = row["partition_spec_id"]
            path = f"{file['file_path']} {file.get('content_offset')}"
            assert path not in found, path
            found[path] = (spec, written, sequence, first, _plain(file))
    return found


def _plain(value: Any) -> Any:
    """Without fields that are null: writers of different versions have different ones."""
    return json.dumps({k: str(v) for k, v in value.items() if v is not None}, sort_keys=True)


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    for record in fastavro.reader(io.BytesIO(data)):
        assert isinstance(record, dict)
        yield record
