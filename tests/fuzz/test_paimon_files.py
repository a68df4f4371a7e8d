"""Damaged Paimon files are read, or refused by name. Nothing else happens."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakesweep.errors import FormatError, UnsupportedError
from lakesweep.paimon.manifests.entries import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.paimon.manifests.named_files import parse_blob_references
from lakesweep.paimon.manifests.row_formats import read_format, read_rows
from lakesweep.paimon.model.schemas import parse_schema
from lakesweep.paimon.model.snapshots import parse_consumer, parse_snapshot, parse_tag
from tests.fuzz.damage import damaged, damaged_document
from tests.fuzz.samples import samples
from tests.random_tests import Cases

_DOCUMENTS: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "schema": (r"/schema/schema-\d+$", lambda data: parse_schema("schema-1", data)),
    "snapshot": (r"/snapshot/snapshot-\d+$", lambda data: parse_snapshot("snapshot-1", data)),
    "tag": (r"/tag/tag-[^/]+$", lambda data: parse_tag("tag-a", data, "a", None)),
    "consumer": (r"/consumer/consumer-[^/]+$", lambda data: parse_consumer("c", data, "c", None)),
}
_BINARIES: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "list": (r"/manifest-list-[^/]+$", lambda data: read_manifest_list("list", data)),
    "manifest": (
        r"/manifest/manifest-[0-9a-f][^/]+$",
        lambda data: list(read_manifest("manifest", data, embedded_indexes=True)),
    ),
    "index": (r"/index-manifest-[^/]+$", lambda data: read_index_manifest("index", data)),
}


@pytest.mark.parametrize(("pattern", "parse"), _DOCUMENTS.values(), ids=_DOCUMENTS)
def test_documents(cases: Cases, pattern: str, parse: Callable[[bytes], object]) -> None:
    documents = [json.loads(data) for data in samples("paimon", pattern)]
    for chance in cases(1_000):
        with suppress(FormatError):
            parse(damaged_document(chance.choice(documents), chance))


@pytest.mark.parametrize(("pattern", "read"), _BINARIES.values(), ids=_BINARIES)
def test_avro_files(cases: Cases, pattern: str, read: Callable[[bytes], object]) -> None:
    files = samples("paimon", pattern)
    for chance in cases(500):
        with suppress(FormatError):
            read(damaged(chance.choice(files), chance, files))


@pytest.mark.parametrize(("pattern", "read"), _BINARIES.values(), ids=_BINARIES)
@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_columnar_files(
    cases: Cases, form: str, pattern: str, read: Callable[[bytes], object]
) -> None:
    files = _columnar(pattern, form)
    for chance in cases(200):
        with suppress(FormatError):
            read(damaged(chance.choice(files), chance, files))


def test_files_that_are_rewritten(cases: Cases) -> None:
    pattern = _BINARIES["manifest"][0]
    files = [
        *samples("paimon", pattern),
        *_columnar(pattern, "orc"),
        *_columnar(pattern, "parquet"),
    ]
    for chance in cases(500):
        data = damaged(chance.choice(files), chance, files)
        with suppress(FormatError, UnsupportedError):
            read_format("manifest", data)
            read_rows("manifest", data)


def test_blob_references(cases: Cases) -> None:
    for chance in cases(500):
        with suppress(FormatError):
            parse_blob_references("blob", chance.randbytes(chance.randrange(200)))


@cache
def _columnar(pattern: str, form: str) -> Sequence[bytes]:
    files = (data for data in samples("paimon", pattern, 60) if data.startswith(b"Obj"))
    return [_rewritten(data, form) for data in islice(files, 8)]


def _rewritten(data: bytes, form: str) -> bytes:
    rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    table, out = pa.Table.from_pylist(rows), pa.BufferOutputStream()
    table = table.cast(pa.schema([(field.name, _typed(field.type)) for field in table.schema]))
    if form == "orc":
        orc.write_table(table, out)
    else:
        pq.write_table(table, out)
    return bytes(out.getvalue())


def _typed(kind: pa.DataType) -> pa.DataType:
    """The type with text where every value is null, which ORC has no type for."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _typed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_typed(kind.value_type))
    return pa.string() if pa.types.is_null(kind) else kind
