"""Entries out of Paimon manifests: ours against inflating alone, fastavro and pypaimon.

    python -m benchmarks.paimon_manifests            # a table
    python -m benchmarks.paimon_manifests --json     # the same as one JSON document

Manifests are as Paimon writes them: plain records, zstandard, blocks of 16,000 bytes. Wide ones
have statistics of 20 columns, thin ones of 4. Rates are entries per second of CPU time, the best of
three runs; slow readers get fewer entries. Kernels are compiled before the clock starts. pypaimon
runs in the environment that `scripts/setup-paimon-readers` makes, and is left out without it.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.avro_decode import (
    PER_MANIFEST,
    ROUNDS,
    Reader,
    contest,
    inflate_only,
    read_fastavro,
    result_of,
    tell,
)
from lakesweep.avro.container import find_codec
from lakesweep.paimon.manifests.entries import read_manifest
from lakesweep.paimon.manifests.named_files import files_of
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import make_partitioning
from lakesweep.paimon.model.schemas import PaimonField
from tests.paimon_tables import NO_PARTITION, File, entry_schema

COLUMNS = {"wide": 20, "thin": 4}
ENTRIES = {"wide": 120_000, "thin": 300_000}
BLOCK_BYTES = 16_000
PYPAIMON = Path(".paimon-readers/pypaimon/bin/python")
KEPT = {
    "_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_FILE",
    "_FILE_NAME", "_FILE_SIZE", "_LEVEL", "_EXTRA_FILES", "_EXTERNAL_PATH",
}  # fmt: skip

#: Reads each named manifest of a table so often, and prints the CPU seconds of each round.
PROGRAM = """
import json, sys, time
from pypaimon import CatalogFactory
from pypaimon.manifest.manifest_file_manager import ManifestFileManager
warehouse, rounds, *names = sys.argv[1:]
manager = ManifestFileManager(CatalogFactory.create({"warehouse": warehouse}).get_table("db.t"))
seconds = []
for _ in range(int(rounds)):
    start = time.process_time()
    count = sum(len(manager.read(name)) for name in names)
    seconds.append(time.process_time() - start)
print(json.dumps({"entries": count, "seconds": min(seconds)}))
"""


def rows(columns: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    text = [parse_type("STRING")]
    days = [encode_row([f"2026-{day // 28 + 1:02}-{day % 28 + 1:02}"], text) for day in range(200)]
    for number in range(PER_MANIFEST):
        uuid = f"{chance.getrandbits(128):032x}"
        name = f"data-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}-{number}"
        partition = days[chance.randrange(len(days))]
        row = File(f"{name}.parquet", partition=partition, bucket=chance.randrange(16)).row()
        row["_FILE"] |= statistics(columns, chance)
        yield row


def statistics(columns: int, chance: random.Random) -> dict[str, Any]:
    types = [parse_type("STRING"), *(parse_type("BIGINT") for _ in range(columns - 1))]

    def bounds() -> bytes:
        return encode_row(["2026-01-01", *(chance.randrange(10**9) for _ in types[1:])], types)

    values = {"_MIN_VALUES": bounds(), "_MAX_VALUES": bounds(), "_NULL_COUNTS": [0] * columns}
    return {
        "_VALUE_STATS": values,
        "_KEY_STATS": {"_MIN_VALUES": NO_PARTITION, "_MAX_VALUES": NO_PARTITION},
        "_ROW_COUNT": chance.randrange(10**6),
        "_FILE_SIZE": chance.randrange(10**8),
    }


def manifests(kind: str) -> list[bytes]:
    schema = fastavro.parse_schema(entry_schema())
    written = []
    for seed in range(ENTRIES[kind] // PER_MANIFEST):
        out = io.BytesIO()
        content = rows(COLUMNS[kind], seed)
        fastavro.writer(out, schema, content, codec="zstandard", sync_interval=BLOCK_BYTES)
        written.append(out.getvalue())
    return written


LAYOUT = Layout(
    "s3://lake/db.db/t/", make_partitioning([PaimonField("dt", "STRING")], Options()), Options()
)


def read_ours(data: bytes) -> int:
    batches = read_manifest("manifest", data, size_bytes=len(data), entries=PER_MANIFEST)
    return sum(batch.num_rows for batch in batches)


def read_paths(data: bytes) -> int:
    batches = read_manifest("manifest", data, size_bytes=len(data), entries=PER_MANIFEST)
    return sum(len(files_of(LAYOUT, batch).paths) for batch in batches)


def read_fastavro_projection(data: bytes) -> int:
    schema = projected(entry_schema())
    return sum(1 for _ in fastavro.reader(io.BytesIO(data), reader_schema=schema))


def projected(schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "record":
        kept = [field for field in schema["fields"] if field["name"] in KEPT]
        return schema | {"fields": [f | {"type": projected(f["type"])} for f in kept]}
    return schema


READERS = (
    Reader("ours", read_ours),
    Reader("ours, with paths", read_paths),
    Reader("inflate alone", inflate_only(find_codec("manifest", "zstandard"))),
    Reader("fastavro projection", read_fastavro_projection, 0.2),
    Reader("fastavro full", read_fastavro, 0.2),
)


def pypaimon_rate(kind: str, data: bytes) -> float:
    """Entries per CPU second of pypaimon, over one manifest of a table."""
    names = ["dt", *(f"c{number}" for number in range(COLUMNS[kind] - 1))]
    types = ["STRING", *["BIGINT"] * (COLUMNS[kind] - 1)]
    fields = [
        {"id": at, "name": name, "type": type_}
        for at, (name, type_) in enumerate(zip(names, types, strict=True))
    ]
    schema = {
        "version": 3,
        "id": 0,
        "fields": fields,
        "highestFieldId": len(fields),
        "partitionKeys": ["dt"],
        "primaryKeys": [],
        "options": {},
        "timeMillis": 0,
    }
    with tempfile.TemporaryDirectory() as warehouse:
        table = Path(warehouse) / "db.db" / "t"
        for folder in ("schema", "manifest", "snapshot"):
            (table / folder).mkdir(parents=True)
        (table / "schema" / "schema-0").write_text(json.dumps(schema))
        (table / "manifest" / "manifest-1").write_bytes(data)
        command = [str(PYPAIMON), "-c", PROGRAM, warehouse, str(ROUNDS), "manifest-1"]
        done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert done["entries"] == PER_MANIFEST
    return float(done["entries"] / done["seconds"])


def measure(kind: str) -> dict[str, Any]:
    files = manifests(kind)
    result = contest(kind, files, READERS)
    if not PYPAIMON.exists():
        return result
    rates = {**result["entries_per_cpu_second"], "pypaimon": pypaimon_rate(kind, files[0])}
    return result_of(kind, files, rates)


def main() -> None:
    parser = argparse.ArgumentParser(description="Entries out of Paimon manifests.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    tell([measure(kind) for kind in ENTRIES], as_json=as_json)


if __name__ == "__main__":
    main()
