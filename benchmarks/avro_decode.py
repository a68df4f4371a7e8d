"""Paths out of Iceberg manifests: ours against inflating alone, fastavro and PyIceberg.

    python benchmarks/avro_decode.py            # a table
    python benchmarks/avro_decode.py --json     # the same as one JSON document

Manifests are as Iceberg's Java library writes them: format version 2, deflate, blocks of 64,000
bytes. Wide ones have sizes, counts and both bounds of 20 columns, thin ones have no statistics.
Rates are entries per second of CPU time, the best of three runs; slow readers get fewer entries.
Kernels are compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    ManifestContent,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import DateType, IntegerType, NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from lakesweep.avro import ProjectedColumn, read_avro
from lakesweep.avro.container import Inflate, find_blocks, find_codec, read_raw_header

ENTRIES = {"wide": 120_000, "thin": 500_000}
PER_MANIFEST = 20_000
STATISTICS_COLUMNS = 20
BLOCK_BYTES = 64_000
ROUNDS = 3

COLUMNS = [
    ProjectedColumn("status", ids=(0,), required=True),
    ProjectedColumn("content", ids=(2, 134)),
    ProjectedColumn("path", ids=(2, 100), required=True),
    ProjectedColumn("format", ids=(2, 101)),
    ProjectedColumn("size", ids=(2, 104)),
]
KEPT = {"status", "data_file", "content", "file_path", "file_format", "file_size_in_bytes"}


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read; `share` of the entries is enough to time it."""

    name: str
    read: Callable[[bytes], int]
    share: float = 1.0


def entry_schema() -> dict[str, Any]:
    partition = StructType(
        NestedField(1000, "day", DateType(), required=False),
        NestedField(1001, "bucket", IntegerType(), required=False),
    )
    schema = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
    avro: Any = AvroSchemaConversion().iceberg_to_avro(schema, schema_name="manifest_entry")
    return dict(avro)


SCHEMA = entry_schema()


def entries(kind: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    names = [field["name"] for field in SCHEMA["fields"][-1]["type"]["fields"]]
    for i in range(count):
        day, bucket, rows = chance.randrange(365), chance.randrange(16), chance.randrange(10**6)
        file = dict.fromkeys(names) | {
            "content": 0,
            "file_path": f"s3://warehouse-prod-eu/db/sales/orders_fact/data/day={day}/"
            f"bucket={bucket}/{i:05d}-{i % 200}-{chance.randbytes(16).hex()}-00001.parquet",
            "file_format": "PARQUET",
            "partition": {"day": 20_000 + day, "bucket": bucket},
            "record_count": rows,
            "file_size_in_bytes": chance.randrange(10**8),
            "split_offsets": [4],
            "sort_order_id": 0,
        }
        if kind == "wide":
            file |= statistics(chance, rows)
        yield {
            "status": 1,
            "snapshot_id": 6_823_123_123_123_123_123,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": file,
        }


def statistics(chance: random.Random, rows: int) -> dict[str, Any]:
    def of_columns(value: Callable[[], Any]) -> list[dict[str, Any]]:
        return [{"key": key, "value": value()} for key in range(1, STATISTICS_COLUMNS + 1)]

    return {
        "column_sizes": of_columns(lambda: chance.randrange(10**6)),
        "value_counts": of_columns(lambda: rows),
        "null_value_counts": of_columns(lambda: chance.randrange(100)),
        "nan_value_counts": [],
        "lower_bounds": of_columns(lambda: struct.pack("<q", chance.randrange(10**9))),
        "upper_bounds": of_columns(lambda: struct.pack("<q", chance.randrange(10**12))),
    }


def manifests(kind: str, count: int) -> list[bytes]:
    schema = fastavro.parse_schema(SCHEMA)
    written = []
    for seed in range(count // PER_MANIFEST):
        out = io.BytesIO()
        rows = entries(kind, PER_MANIFEST, seed)
        fastavro.writer(out, schema, rows, codec="deflate", sync_interval=BLOCK_BYTES)
        written.append(out.getvalue())
    return written


def read_ours(data: bytes) -> int:
    return sum(batch.num_rows for batch in read_avro("manifest", data, COLUMNS))


def inflate_only(inflate: Inflate) -> Callable[[bytes], int]:
    def read(data: bytes) -> int:
        view, count = memoryview(data), 0
        for table in find_blocks(read_raw_header("manifest", data), data):
            for first, end, records in table.tolist():
                inflate(view[first:end])
                count += records
        return count

    return read


def read_fastavro(data: bytes) -> int:
    return sum(1 for _ in fastavro.reader(io.BytesIO(data)))


def read_fastavro_projection(data: bytes) -> int:
    return sum(1 for _ in fastavro.reader(io.BytesIO(data), reader_schema=projected(SCHEMA)))


def projected(schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "record":
        kept = [field for field in schema["fields"] if field["name"] in KEPT]
        fields = [field | {"type": projected(field["type"])} for field in kept]
        return schema | {"fields": fields}
    return schema


def read_pyiceberg(data: bytes) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.avro"
        path.write_bytes(data)
        manifest = ManifestFile.from_args(
            manifest_path=str(path),
            manifest_length=len(data),
            partition_spec_id=0,
            content=ManifestContent.DATA,
            sequence_number=1,
            min_sequence_number=1,
            added_snapshot_id=1,
        )
        return len(manifest.fetch_manifest_entry(PyArrowFileIO()))


READERS = (
    Reader("ours", read_ours),
    Reader("inflate alone, same library", inflate_only(find_codec("manifest", "deflate"))),
    Reader("inflate alone, zlib", inflate_only(lambda data: zlib.decompress(data, -15))),
    Reader("fastavro projection", read_fastavro_projection, 0.2),
    Reader("fastavro full", read_fastavro, 0.2),
    Reader("PyIceberg", read_pyiceberg, 0.2),
)


def rate(reader: Reader, files: Sequence[bytes]) -> float:
    """Entries per CPU second."""
    chosen = files[: max(1, round(len(files) * reader.share))]
    start = time.process_time()
    count = sum(map(reader.read, chosen))
    assert count == len(chosen) * PER_MANIFEST, reader.name
    return count / (time.process_time() - start)


def measure(kind: str) -> dict[str, Any]:
    """What every reader does with manifests of a kind."""
    return contest(kind, manifests(kind, ENTRIES[kind]), READERS)


def contest(kind: str, files: Sequence[bytes], readers: Sequence[Reader]) -> dict[str, Any]:
    """The best rate of each reader. They take turns, so that other load falls on all of them."""
    readers[0].read(files[0])
    rounds = [[rate(reader, files) for reader in readers] for _ in range(ROUNDS)]
    names = [reader.name for reader in readers]
    rates = dict(zip(names, map(max, zip(*rounds, strict=True)), strict=True))
    return result_of(kind, files, rates)


def result_of(kind: str, files: Sequence[bytes], rates: Mapping[str, float]) -> dict[str, Any]:
    """Rates in entries per CPU second, and how many times as fast as each the first is."""
    ours = next(iter(rates.values()))
    return {
        "kind": kind,
        "entries": len(files) * PER_MANIFEST,
        "bytes": sum(map(len, files)),
        "entries_per_cpu_second": {name: round(value) for name, value in rates.items()},
        "ours_against": {name: round(ours / value, 2) for name, value in rates.items()},
    }


def show(result: dict[str, Any]) -> None:
    size = result["bytes"] / result["entries"]
    print(f"\n{result['kind']}: {result['entries']:,} entries of {size:.0f} bytes")
    print(f"{'':30}{'entries/CPU s':>15}{'ours / it':>12}")
    for name, value in result["entries_per_cpu_second"].items():
        print(f"{name:30}{value:>15,}{result['ours_against'][name]:>11.2f}x")


def tell(results: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print tables, or one JSON document."""
    if as_json:
        print(json.dumps(results))
        return
    for result in results:
        show(result)


def main() -> None:
    parser = argparse.ArgumentParser(description="Paths out of Iceberg manifests.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    tell([measure(kind) for kind in ENTRIES], as_json=as_json)


if __name__ == "__main__":
    main()
