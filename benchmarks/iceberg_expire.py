"""Expiring the history of one table: the real command, beside Iceberg's procedure on Spark.

    python -m benchmarks.iceberg_expire                       # 200 snapshots of 1,000 files
    python -m benchmarks.iceberg_expire --snapshots 20
    scripts/setup-peers && python -m benchmarks.iceberg_expire --rounds 2
    python -m benchmarks.iceberg_expire --linear 5000         # reads of manifests, no peer

Each snapshot overwrites the whole table, so all files but those of the last one are freed: the
manifests of a snapshot name its own files as added and those before as deleted. Everybody expires
a copy of the same table, which shares no file with the others. Seconds are those of whole
processes, memory is the peak of all their processes together.

With `--linear`, each snapshot appends one file, as a streaming writer does, and all but one expire.
Every manifest is still listed by the last snapshot, so only lists go; it prints how often lists
and manifests were read.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from benchmarks.sweep_run import Run, run

_PEERS = Path(".peers").resolve()
_COMMAND = Path(sys.executable).with_name("lakesweep")
_UUID = "5b6f4a2e-6d3f-4f0c-9a51-3b7a2f1c0e55"
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
_DAY_MS = 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the expiry of one table's history.")
    parser.add_argument("--snapshots", type=int, default=200)
    parser.add_argument("--files", type=int, default=1_000, help="data files of each snapshot")
    parser.add_argument("--linear", type=int, default=0, help="snapshots of a table of appends")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="expire-") as name:
        if arguments.linear:
            _linear(Path(name), arguments.linear)
            return
        _contest(Path(name), arguments)


def _contest(folder: Path, arguments: argparse.Namespace) -> None:
    has_peer = _PEERS.is_dir() and not arguments.no_peer
    if not has_peer:
        print("without Iceberg's own expiry: scripts/setup-peers fetches it")
    runs: dict[str, list[Run]] = {"Lakesweep, local": []}
    if has_peer:
        runs["Iceberg on Spark"] = []
    freed = (arguments.snapshots - 1) * arguments.files
    for number in range(arguments.rounds):
        for name, done in runs.items():
            warehouse = folder / f"{number}-{len(name)}" / "lake"
            table = _Table(warehouse / "db" / "t", arguments.files)
            table.make(arguments.snapshots, overwrites=True)
            found = _ours(table) if name.startswith("Lake") else _theirs(warehouse, arguments)
            done.append(found)
            print(f"{name}: {found.seconds:.1f} s", file=sys.stderr, flush=True)
            left = sum(1 for _ in (table.folder / "data").iterdir())
            assert left == arguments.files, left
            shutil.rmtree(warehouse.parent)
    _show(runs, freed, arguments.snapshots)


def _ours(table: _Table) -> Run:
    home = table.folder.parents[2]
    (home / "lakesweep.toml").write_text("")
    words = ["iceberg", "expire-snapshots", str(table.folder), "--older-than", "0s"]
    words += ["--retain-last", "1", "--yes", "--json", "--override", "share,live-fell"]
    return run([_COMMAND, "-q", *words], home)


def _theirs(warehouse: Path, arguments: argparse.Namespace) -> Run:
    (jar,) = _PEERS.glob("jars/*.jar")
    script = Path(__file__).with_name("iceberg_peer.py")
    python = _PEERS / "venv" / "bin" / "python"
    words: list[str | Path] = [python, script, jar, warehouse, str(arguments.cores), "expire"]
    return run(words, warehouse.parent)


def _show(runs: dict[str, list[Run]], freed: int, snapshots: int) -> None:
    print(f"\n{snapshots:,} snapshots, {freed:,} data files freed")
    print(f"{'':20}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}")
    best = {name: min(done, key=lambda each: each.seconds) for name, done in runs.items()}
    for name, found in best.items():
        peak = found.usage.peak_bytes / 1e6
        print(f"{name:20}{found.seconds:>9.1f}{found.usage.cpu_seconds:>8.1f}{peak:>9,.0f}")
    if len(best) > 1:
        ours, theirs = best.values()
        call = json.loads(theirs.output)["call"]
        print(f"seconds: {theirs.seconds / ours.seconds:.1f} x, to the call alone", end=" ")
        print(f"{call / ours.seconds:.1f} x; memory:", end=" ")
        print(f"{ours.usage.peak_bytes / theirs.usage.peak_bytes:.2f} x")


def _linear(folder: Path, snapshots: int) -> None:
    """Count what is read of a long history."""
    from lakesweep.iceberg.metadata import load_metadata
    from lakesweep.storage.stores import Stores
    from lakesweep.storage.wrappers.faults import Recording
    from lakesweep.upkeep.file_index import FileIndex

    table = _Table(folder / "lake" / "db" / "t", 1)
    table.make(snapshots, overwrites=False)
    recording = Recording(Stores().open("/"))
    stores = Stores(replace={"/": recording})
    metadata: Any = load_metadata(stores, str(table.metadata))
    begin = time.perf_counter()
    with FileIndex(stores) as index:
        index.read_lists(metadata)
        index.read_manifests()
        files = index.count_content(metadata)
    seconds = time.perf_counter() - begin
    reads = Counter(Path(key).name[:5] == "snap-" for key in recording.keys("read"))
    most = max(Counter(recording.keys("read")).values())
    print(f"{snapshots:,} snapshots, {files:,} files: {seconds:.1f} s", end=", ")
    print(f"{reads[True]:,} lists and {reads[False]:,} other files read, each at most {most} times")


@dataclass
class _Table:
    """A v2 table without partitions, in a folder as Iceberg's Hadoop catalog has it."""

    folder: Path
    files: int

    @property
    def metadata(self) -> Path:
        return self.folder / "metadata" / "v1.metadata.json"

    def make(self, snapshots: int, *, overwrites: bool) -> None:
        """Write all snapshots, one a minute, up to some days ago."""
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "metadata").mkdir()
        start = int(time.time() * 1000) - 20 * _DAY_MS
        lines, rows = [], list[dict[str, Any]]()
        for number in range(1, snapshots + 1):
            added = self._manifest(number, number, 1)
            if overwrites:
                removed = [self._manifest(number, number - 1, 2)] if number > 1 else []
                rows = [added, *removed]
            else:
                rows = [added, *rows]
            path = self._write(f"snap-{number}-1-{_UUID}.avro", _encode(_LIST, rows, {}))
            lines.append(self._snapshot(number, path, start + number * 60_000))
        document = self._document(lines)
        self._write("v1.metadata.json", json.dumps(document).encode())
        self._write("version-hint.text", b"1")

    def _manifest(self, number: int, files_of: int, status: int) -> dict[str, Any]:
        paths = [
            f"{self.folder}/data/{files_of:05}-{each:05}.parquet" for each in range(self.files)
        ]
        if status == 1:
            for path in paths:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        entries = [
            {
                "status": status,
                "snapshot_id": number,
                "sequence_number": files_of,
                "file_sequence_number": files_of,
                "data_file": {
                    **_NO_FILE,
                    "content": 0,
                    "file_path": path,
                    "file_format": "PARQUET",
                    "partition": {},
                    "record_count": 1,
                    "file_size_in_bytes": 1,
                },
            }
            for path in paths
        ]
        data = _encode(_ENTRY, entries, _ABOUT)
        path = self._write(f"{_UUID}-{number}-m{status}.avro", data)
        counts = {1: "added", 2: "deleted"}
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": number,
            "min_sequence_number": files_of,
            "added_snapshot_id": number,
            **{
                f"{name}_{what}_count": self.files if counts[status] == name else 0
                for name in ("added", "existing", "deleted")
                for what in ("files", "rows")
            },
        }

    def _snapshot(self, number: int, path: str, moment: int) -> dict[str, Any]:
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        return {
            "sequence-number": number,
            "snapshot-id": number,
            **parent,
            "timestamp-ms": moment,
            "summary": {"operation": "overwrite" if number > 1 else "append"},
            "manifest-list": path,
            "schema-id": 0,
        }

    def _document(self, snapshots: list[dict[str, Any]]) -> dict[str, Any]:
        last = snapshots[-1]
        log = [{key: each[key] for key in ("timestamp-ms", "snapshot-id")} for each in snapshots]
        return {
            "format-version": 2,
            "table-uuid": _UUID,
            "location": str(self.folder),
            "last-sequence-number": last["sequence-number"],
            "last-updated-ms": last["timestamp-ms"],
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [_SCHEMA],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": last["snapshot-id"],
            "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
            "snapshots": snapshots,
            "snapshot-log": log,
            "metadata-log": [],
        }

    def _write(self, name: str, data: bytes) -> str:
        path = self.folder / "metadata" / name
        path.write_bytes(data)
        return str(path)


def _encode(schema: Any, rows: list[dict[str, Any]], about: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    metadata = {"format-version": "2", **about}
    fastavro.writer(buffer, schema, rows, "deflate", metadata=metadata)
    return buffer.getvalue()


def _avro(schema: Any, name: str) -> Any:
    return fastavro.parse_schema(dict(AvroSchemaConversion().iceberg_to_avro(schema, name)))  # type: ignore[arg-type]


_LIST = _avro(MANIFEST_LIST_FILE_SCHEMAS[2], "manifest_file")
_FILE = data_file_with_partition(StructType(), 2)
_ENTRY = _avro(manifest_entry_schema_with_data_file(2, _FILE), "manifest_entry")
_NO_FILE: dict[str, Any] = dict.fromkeys(field.name for field in _FILE.fields)
_ABOUT = {
    "schema": json.dumps(_SCHEMA),
    "schema-id": "0",
    "partition-spec": "[]",
    "partition-spec-id": "0",
    "content": "data",
}


if __name__ == "__main__":
    main()
