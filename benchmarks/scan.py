"""Scan many tables on S3: `python -m benchmarks.scan --tables 1000 --latency-ms 30`.

Each table has 10 snapshots with a manifest list each, 10 manifests of 20 entries, and a metadata
file: 21 files. They lie behind a server in a process of its own that answers after the latency. The
scan is the whole command in a new process, and its memory the peak of that process.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.avro_decode import SCHEMA, entries
from benchmarks.model_s3 import model_server
from tests.servers import S3Server

SNAPSHOTS = 10
PER_MANIFEST = 20
_NAME = "t00000"
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "field-id": 500, "type": "string"},
        {"name": "manifest_length", "field-id": 501, "type": "long"},
    ],
}
_CONFIG = """\
[storage."s3://files"]
endpoint = "{endpoint}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"

[lakes.bench]
locations = ["s3://files/w"]

[[lakes.bench.roots]]
type = "iceberg-catalog"
name = "bench"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
"""


def make_tables(folder: Path, count: int) -> None:
    """Write one table, and copy it under other names of the same length."""
    first = _first_table()
    for number in range(count):
        name = f"t{number:05}"
        place = folder / "objects" / "w" / name
        place.mkdir(parents=True)
        for file, data in first.items():
            (place / file).write_bytes(data.replace(_NAME.encode(), name.encode()))
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse="s3://files/w")
    catalog.create_namespace("n")
    catalog.close()
    rows = [
        ("bench", "n", f"t{number:05}", f"s3://files/w/t{number:05}/00009-x.metadata.json")
        for number in range(count)
    ]
    with sqlite3.connect(folder / "catalog.db") as database:
        database.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location) VALUES (?, ?, ?, ?)",
            rows,
        )


def _first_table() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    snapshots: list[dict[str, Any]] = []
    place = f"s3://files/w/{_NAME}"
    for number in range(SNAPSHOTS):
        files[f"m{number}.avro"] = _encoded(SCHEMA, entries("thin", PER_MANIFEST, number))
        named = range(max(0, number - 2), number + 1)
        rows = [
            {
                "manifest_path": f"{place}/m{each}.avro",
                "manifest_length": len(files[f"m{each}.avro"]),
            }
            for each in named
        ]
        files[f"s{number}.avro"] = _encoded(_LIST, rows)
        snapshots.append(
            {
                "snapshot-id": number + 1,
                "timestamp-ms": 1_780_000_000_000 + number,
                "manifest-list": f"{place}/s{number}.avro",
                "summary": {"operation": "overwrite"},
                **({"parent-snapshot-id": number} if number else {}),
            }
        )
    document = {
        "format-version": 2,
        "table-uuid": _NAME,
        "location": place,
        "current-snapshot-id": SNAPSHOTS,
        "refs": {"main": {"snapshot-id": SNAPSHOTS, "type": "branch"}},
        "snapshots": snapshots,
    }
    return {**files, "00009-x.metadata.json": json.dumps(document).encode()}


def _encoded(schema: Any, rows: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), rows, "null")
    return buffer.getvalue()


def scan(folder: Path, server: S3Server, tables: int) -> None:
    """Run the command, and print what it took."""
    config = folder / "lakesweep.toml"
    config.write_text(
        _CONFIG.format(
            endpoint=server.endpoint,
            key=server.access_key_id,
            secret=server.secret_access_key,
            folder=folder,
        )
    )
    command = [
        sys.executable,
        "-m",
        "lakesweep",
        "scan",
        "bench",
        "--json",
        "--config",
        str(config),
    ]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - start
    document = json.loads(done.stdout)
    assert document["totals"]["tables"] == tables, document["totals"]
    assert all(each["measured_by"] == "all" for each in document["tables"])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(f"{tables:,} tables, {tables * 21:,} files: {seconds:.1f} s, {cpu:.1f} CPU s,")
    print(f"{used.ru_maxrss / 1024:,.0f} MB, {seconds / tables * 1000:.0f} ms a table")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--latency-ms", type=float, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakesweep-scan-") as name:
        folder = Path(name)
        make_tables(folder, arguments.tables)
        with model_server(0, arguments.latency_ms, folder / "objects") as server:
            scan(folder, server, arguments.tables)


if __name__ == "__main__":
    main()
