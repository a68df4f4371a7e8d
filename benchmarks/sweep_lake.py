"""A lake of one large Iceberg table with as many orphans as live files, quickly made.

The files are empty; the metadata is what Iceberg's Java library reads and would have written:
format version 2, one manifest for each round through all partitions, deflated, with statistics.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

PARTITIONS = 1_000
_SNAPSHOT = 7_123_456_789_012_345_678
_SYNC = bytes(range(16))
_BLOCK_BYTES = 64_000
_ROWS_IN_A_FILE = 1_000
_UUID = "9d4f4a2e-6d3f-4f0c-9a51-3b7a2f1c0e55"
_SPEC = [{"name": "part", "transform": "identity", "source-id": 1, "field-id": 1000}]


@dataclass(frozen=True)
class Lake:
    """`folder` is the warehouse of a Hadoop catalog, in which the table is `db.t`.

    The entries of manifests have the statistics of so many columns. All files were written at one
    `moment`, in seconds since 1970.
    """

    folder: Path
    files: int
    columns: int
    moment: float

    @property
    def table(self) -> Path:
        return self.folder / "db" / "t"

    @property
    def metadata(self) -> Path:
        return self.table / "metadata" / "v1.metadata.json"

    @property
    def rounds(self) -> int:
        return max(1, self.files // PARTITIONS)

    @property
    def live(self) -> int:
        """How many data files the table has."""
        return self.rounds * PARTITIONS

    @property
    def referenced(self) -> int:
        """How many files are live, those of the metadata among them."""
        return self.live + self.rounds + 3

    def make(self) -> None:
        """Write the table and plant the orphans."""
        for part in range(PARTITIONS):
            (self.table / f"data/part={part:04}").mkdir(parents=True)
        (self.table / "metadata").mkdir()
        self._touch_all(self._live_path)
        self._write_metadata()
        self.plant()

    def plant(self) -> None:
        """Make the orphans that are not there."""
        self._touch_all(self.orphan)

    def orphans(self) -> Iterator[str]:
        """The addresses of all orphans."""
        for part in range(PARTITIONS):
            for number in range(self.rounds):
                yield self.orphan(part, number)

    def orphan(self, part: int, number: int) -> str:
        return f"{self.table}/data/part={part:04}/{number:05}-7-{_UUID[:-4]}dead-00001.parquet"

    def _live_path(self, part: int, number: int) -> str:
        return f"{self.table}/data/part={part:04}/{number:05}-0-{_UUID[:-4]}beef-00001.parquet"

    def _touch_all(self, path: Callable[[int, int], str]) -> None:
        moment = int(self.moment * 1e9)
        for part in range(PARTITIONS):
            for number in range(self.rounds):
                name = path(part, number)
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
                os.utime(name, ns=(moment, moment))

    def _write_metadata(self) -> None:
        rows = [self._write_manifest(number) for number in range(self.rounds)]
        conversion = AvroSchemaConversion()
        listed: Any = conversion.iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[2], "manifest_file")
        buffer = io.BytesIO()
        fastavro.writer(
            buffer, listed, rows, "deflate", metadata={"format-version": "2", "content": "data"}
        )
        path = self._write(f"snap-{_SNAPSHOT}-1-{_UUID}.avro", buffer.getvalue())
        self._write(self.metadata.name, json.dumps(self._document(path)).encode())
        self._write("version-hint.text", b"1")

    def _write_manifest(self, number: int) -> dict[str, Any]:
        data = self._manifest(number)
        path = self._write(f"{_UUID}-m{number}.avro", data)
        added = {"added_files_count": PARTITIONS, "added_rows_count": PARTITIONS * _ROWS_IN_A_FILE}
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": 1,
            "min_sequence_number": 1,
            "added_snapshot_id": _SNAPSHOT,
            "existing_files_count": 0,
            "deleted_files_count": 0,
            "existing_rows_count": 0,
            "deleted_rows_count": 0,
            **added,
        }

    def _write(self, name: str, data: bytes) -> str:
        path = self.table / "metadata" / name
        path.write_bytes(data)
        os.utime(path, (self.moment, self.moment))
        return str(path)

    def _manifest(self, number: int) -> bytes:
        """Entries differ in few bytes, so all that is the same is encoded once."""
        head, tails = self._entry
        entries = [
            head + self._live_path(part, number).encode() + tail for part, tail in enumerate(tails)
        ]
        some = max(1, _BLOCK_BYTES // len(entries[0]))
        blocks = [_block(entries[start : start + some]) for start in range(0, PARTITIONS, some)]
        return self._preamble + b"".join(blocks)

    @cached_property
    def _entry(self) -> tuple[bytes, list[bytes]]:
        """What stands before the path of an entry, and after it in each partition."""
        whole = [self._encode(part) for part in range(PARTITIONS)]
        marker = self._live_path(0, 0).encode()
        pairs = [entry.split(marker) for entry in whole]
        return pairs[0][0], [tail for _, tail in pairs]

    def _encode(self, part: int) -> bytes:
        names = [field["name"] for field in _ENTRY["fields"][-1]["type"]["fields"]]
        file = dict.fromkeys(names) | {
            "content": 0,
            "file_path": self._live_path(0, 0),
            "file_format": "PARQUET",
            "partition": {"part": part},
            "record_count": _ROWS_IN_A_FILE,
            "file_size_in_bytes": 0,
            "sort_order_id": 0,
            **_statistics(part, self.columns),
        }
        entry = {"status": 1, "snapshot_id": _SNAPSHOT, "data_file": file}
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, _PARSED, entry)
        return buffer.getvalue()

    @cached_property
    def _preamble(self) -> bytes:
        about = {
            "schema": json.dumps(_schema(self.columns)),
            "schema-id": "0",
            "partition-spec": json.dumps(_SPEC),
            "partition-spec-id": "0",
            "format-version": "2",
            "content": "data",
        }
        buffer = io.BytesIO()
        fastavro.writer(buffer, _PARSED, [], "deflate", metadata=about, sync_marker=_SYNC)
        return buffer.getvalue()

    def _document(self, manifest_list: str) -> dict[str, Any]:
        moment = int(self.moment * 1000)
        snapshot = {
            "sequence-number": 1,
            "snapshot-id": _SNAPSHOT,
            "timestamp-ms": moment,
            "summary": {"operation": "append"},
            "manifest-list": manifest_list,
            "schema-id": 0,
        }
        return {
            "format-version": 2,
            "table-uuid": _UUID,
            "location": str(self.table),
            "last-sequence-number": 1,
            "last-updated-ms": moment,
            "last-column-id": max(1, self.columns),
            "current-schema-id": 0,
            "schemas": [_schema(self.columns)],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": _SPEC}],
            "last-partition-id": 1000,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "current-snapshot-id": _SNAPSHOT,
            "refs": {"main": {"snapshot-id": _SNAPSHOT, "type": "branch"}},
            "snapshots": [snapshot],
            "statistics": [],
            "partition-statistics": [],
            "snapshot-log": [{"timestamp-ms": moment, "snapshot-id": _SNAPSHOT}],
            "metadata-log": [],
        }


def _entry_schema() -> dict[str, Any]:
    partition = StructType(NestedField(1000, "part", IntegerType(), required=False))
    schema = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition, 2))
    avro: Any = AvroSchemaConversion().iceberg_to_avro(schema, "manifest_entry")
    return dict(avro)


_ENTRY = _entry_schema()
_PARSED = fastavro.parse_schema(_ENTRY)


def _schema(columns: int) -> dict[str, Any]:
    names = ["part", *(f"c{number}" for number in range(2, columns + 1))]
    fields = [NestedField(number, name, IntegerType()) for number, name in enumerate(names, 1)]
    return dict(json.loads(Schema(*fields, schema_id=0).model_dump_json()))


def _statistics(part: int, columns: int) -> dict[str, Any]:
    def of_columns(value: Callable[[int], Any]) -> list[dict[str, Any]]:
        return [{"key": key, "value": value(key * 7_919 + part * 31)} for key in keys]

    keys = range(1, columns + 1)
    if not columns:
        return {}
    return {
        "column_sizes": of_columns(lambda seed: seed % 99_991),
        "value_counts": of_columns(lambda _: _ROWS_IN_A_FILE),
        "null_value_counts": of_columns(lambda seed: seed % 7),
        "nan_value_counts": [],
        "lower_bounds": of_columns(lambda seed: struct.pack("<i", seed * 31_337 % 2**30)),
        "upper_bounds": of_columns(lambda seed: struct.pack("<i", seed * 65_537 % 2**31)),
    }


def _block(entries: list[bytes]) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    data = deflate.compress(b"".join(entries)) + deflate.flush()
    return _varint(len(entries)) + _varint(len(data)) + data + _SYNC


def _varint(number: int) -> bytes:
    rest, out = number * 2, bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)
