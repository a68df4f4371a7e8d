"""All files that a large table reaches: `python -m benchmarks.iceberg_reach`.

The table lies in a local folder: one snapshot, 200 thin manifests of 1,000 entries each, as the
Java library writes them. The walk and the whole command are held against decoding the same
manifests in one thread and keeping nothing, which is as fast as it can get without more cores.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastavro

from benchmarks.avro_decode import BLOCK_BYTES, SCHEMA, entries, read_ours
from benchmarks.contest import hold
from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import load_metadata
from lakesweep.marks.unreadable import Strict
from lakesweep.storage.datasets.spool import unique_files
from lakesweep.storage.stores import Stores

MANIFESTS = 200
PER_MANIFEST = 1_000
_LIST_SCHEMA = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "field-id": 500, "type": "string"},
        {"name": "manifest_length", "field-id": 501, "type": "long"},
    ],
}


def make_table(folder: Path, kind: str = "thin") -> str:
    """Write the table; gives the address of its metadata file."""
    schema, rows = fastavro.parse_schema(SCHEMA), []
    for number in range(MANIFESTS):
        path = folder / f"{number}-m0.avro"
        with path.open("wb") as file:
            fastavro.writer(
                file, schema, entries(kind, PER_MANIFEST, number), "deflate", BLOCK_BYTES
            )
        rows.append({"manifest_path": str(path), "manifest_length": path.stat().st_size})
    buffer = io.BytesIO()
    fastavro.writer(buffer, _LIST_SCHEMA, rows, "deflate")
    (folder / "snap-1.avro").write_bytes(buffer.getvalue())
    snapshot = {"snapshot-id": 1, "manifest-list": str(folder / "snap-1.avro")}
    document = {"format-version": 2, "table-uuid": "t", "location": str(folder)}
    metadata = folder / "00000-t.metadata.json"
    metadata.write_text(json.dumps({**document, "snapshots": [snapshot]}))
    return str(metadata)


def walk(path: str, *, unique: bool = False) -> int:
    """How many files the table reaches."""
    stores = Stores()
    batches = reached_files(stores, load_metadata(stores, path), Strict())
    return sum(batch.num_rows for batch in (unique_files(batches) if unique else batches))


def decode(folder: Path) -> int:
    """How many files decoding alone gives; the three files above the manifests are added."""
    return sum(read_ours(file.read_bytes()) + 1 for file in folder.glob("*-m0.avro")) + 2


def command(path: str) -> int:
    """How many lines the whole command writes, its start included."""
    start = [sys.executable, "-m", "lakesweep", "iceberg", "files", path, "--json", "-q"]
    done = subprocess.run(start, check=True, stdout=subprocess.PIPE)
    return done.stdout.count(b"\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = make_table(folder)
        count = MANIFESTS * (PER_MANIFEST + 1) + 2
        begin = time.perf_counter()
        walk(path, unique=True)
        print(f"first walk, with the kernels loaded: {time.perf_counter() - begin:.1f} s")
        contenders = {
            "decoding alone": lambda: decode(folder),
            "walk": lambda: walk(path),
            "walk, each file once": lambda: walk(path, unique=True),
            "lakesweep iceberg files": lambda: command(path),
        }
        hold("files of a table", count, contenders, rounds=3)


if __name__ == "__main__":
    main()
