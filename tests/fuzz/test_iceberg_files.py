"""Damaged Iceberg files are read, or refused by name. Nothing else happens."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from random import Random

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import FormatError
from lakesweep.iceberg.manifests import read_manifest, read_manifest_list
from lakesweep.iceberg.metadata import parse_metadata
from lakesweep.untrusted.limits import ReadLimits
from tests.fuzz.damage import damaged, damaged_document
from tests.fuzz.samples import samples
from tests.random_tests import Cases

_LIMITS = ReadLimits(file_bytes=1 << 22, inflated_bytes=1 << 24, block_bytes=1 << 23)
_METADATA, _LISTS, _MANIFESTS = r"[^z]\.metadata\.json$", r"/snap-[^/]+\.avro$", r"-m\d+\.avro$"


def test_metadata(cases: Cases) -> None:
    documents = [json.loads(data) for data in samples("iceberg", _METADATA)]
    for chance in cases(3_000):
        _read_metadata(damaged_document(chance.choice(documents), chance), chance)


def test_metadata_in_gzip(cases: Cases) -> None:
    files = [gzip.compress(data) for data in samples("iceberg", _METADATA)]
    for chance in cases(500):
        _read_metadata(damaged(chance.choice(files), chance), chance)


def test_manifest_lists(cases: Cases) -> None:
    files = samples("iceberg", _LISTS)
    for chance in cases(1_000):
        _read_list(damaged(chance.choice(files), chance, files), chance)


def test_manifests(cases: Cases) -> None:
    files = samples("iceberg", _MANIFESTS)
    for chance in cases(1_000):
        _read_manifest(damaged(chance.choice(files), chance, files), chance)


@pytest.mark.parametrize("codec", ["null", "snappy", "zstandard", "bzip2", "xz"])
def test_manifests_of_every_codec(cases: Cases, codec: str) -> None:
    files = _recoded(codec)
    for chance in cases(200):
        _read_manifest(damaged(chance.choice(files), chance, files), chance)


def test_manifest_lists_in_parquet(cases: Cases) -> None:
    files = _in_parquet(_LISTS)
    for chance in cases(500):
        _read_list(damaged(chance.choice(files), chance, files), chance)


def test_manifests_in_parquet(cases: Cases) -> None:
    files = _in_parquet(_MANIFESTS)
    for chance in cases(500):
        _read_manifest(damaged(chance.choice(files), chance, files), chance)


def _read_metadata(data: bytes, chance: Random) -> None:
    location = chance.choice([None, "s3://lake/t"])
    with suppress(FormatError):
        parse_metadata("s3://lake/t/metadata/v1.metadata.json", data, location, _LIMITS)


def _read_list(data: bytes, chance: Random) -> None:
    with suppress(FormatError):
        read_manifest_list("list", data, data_files=chance.choice([None, 1]), limits=_LIMITS)


def _read_manifest(data: bytes, chance: Random) -> None:
    entries = chance.choice([None, 1])
    with suppress(FormatError):
        for batch in read_manifest("manifest", data, entries=entries, limits=_LIMITS):
            batch.validate(full=True)


@cache
def _recoded(codec: str) -> Sequence[bytes]:
    def recode(data: bytes) -> bytes:
        reader, out = fastavro.reader(io.BytesIO(data)), io.BytesIO()
        fastavro.writer(out, reader.writer_schema, list(reader), codec=codec)
        return out.getvalue()

    return [recode(data) for data in samples("iceberg", _MANIFESTS, 10)]


@cache
def _in_parquet(pattern: str) -> Sequence[bytes]:
    return [_parquet(data, how) for data in samples("iceberg", pattern, 10) for how in _PARQUETS]


def _parquet(data: bytes, write: Callable[[pa.Table, pa.BufferOutputStream], None]) -> bytes:
    rows = [_plain(row) for row in fastavro.reader(io.BytesIO(data))]
    out = pa.BufferOutputStream()
    write(pa.Table.from_pylist(rows), out)
    return bytes(out.getvalue())


def _plain(row: object) -> dict[str, object]:
    """Only what Arrow can guess the type of: statistics and partitions differ from row to row."""
    assert isinstance(row, dict)
    file = row.get("data_file")
    kept: dict[str, object] = {k: v for k, v in row.items() if isinstance(v, int | str)}
    if isinstance(file, dict):
        kept["data_file"] = {k: v for k, v in file.items() if isinstance(v, int | str)}
    return kept


_PARQUETS: Sequence[Callable[[pa.Table, pa.BufferOutputStream], None]] = (
    lambda table, out: pq.write_table(table, out, store_schema=False),
    lambda table, out: pq.write_table(
        table, out, use_dictionary=False, compression="zstd", data_page_version="2.0"
    ),
)
