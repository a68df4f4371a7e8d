"""Avro files for tests: written by fastavro, or byte by byte."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from lakesweep.avro import ProjectedColumn, read_avro

SYNC = bytes(range(16))
CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")


def write_avro(
    schema: Any, records: Iterable[Any], codec: str = "null", sync_interval: int = 16000
) -> bytes:
    """A file as fastavro writes it."""
    out = io.BytesIO()
    fastavro.writer(
        out, schema, records, codec=codec, sync_interval=sync_interval, sync_marker=SYNC
    )
    return out.getvalue()


def long(value: int) -> bytes:
    """A number as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def text(value: str) -> bytes:
    """A string as Avro writes it."""
    return long(len(value.encode())) + value.encode()


def file_of(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    """A file of blocks, each given as its number of records and their bytes as they stand."""
    metadata = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    header = b"".join(text(key) + text(value) for key, value in metadata.items())
    body = b"".join(long(count) + long(len(data)) + data + SYNC for count, data in blocks)
    return b"Obj\x01" + long(len(metadata)) + header + long(0) + SYNC + body


def record(*fields: tuple[str, Any], name: str = "row") -> dict[str, Any]:
    """The schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": type_} for each, type_ in fields],
    }


def array(items: Any) -> dict[str, Any]:
    """The schema of an array."""
    return {"type": "array", "items": items}


def rows(data: Any, columns: Sequence[ProjectedColumn]) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [row for batch in read_avro("some.avro", data, columns) for row in batch.to_pylist()]


def column(data: Any, *names: str, **options: Any) -> list[Any]:
    """The values of one column, found by names."""
    return [row["it"] for row in rows(data, [ProjectedColumn("it", names=names, **options)])]


def only_batch(data: Any, *columns: ProjectedColumn) -> pa.RecordBatch:
    """The batch of a file that has one."""
    (batch,) = read_avro("some.avro", data, columns)
    return batch
