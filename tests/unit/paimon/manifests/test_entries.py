"""Manifests in all forms and formats, and damaged ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError, TruncatedError
from lakesweep.paimon.manifests.entries import (
    ENTRIES,
    FULL_ENTRIES,
    INDEX_ENTRIES,
    MANIFESTS,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from tests.paimon import TABLES, JavaWarehouses
from tests.paimon_tables import (
    INDEX_SCHEMA,
    LIST_SCHEMA,
    NO_PARTITION,
    File,
    Index,
    Table,
    arrow_type,
    as_orc,
    as_parquet,
    encode,
    entry_schema,
)

Encode = Callable[[list[dict[str, Any]]], bytes]
CODECS = ("null", "deflate", "snappy", "zstandard")
FILES = (
    File("data-a.parquet", extra=("data-a.parquet.index",), external_path="s3://x/data-a.parquet"),
    File("data-b.parquet", kind=1, bucket=-2, level=5, embedded=b"index"),
)


def read(data: bytes, **how: Any) -> list[dict[str, Any]]:
    batches = read_manifest("manifest-1", data, embedded_indexes=True, **how)
    return list(pa.Table.from_batches(batches, schema=FULL_ENTRIES).to_pylist())


def expected(file: File, **other: Any) -> dict[str, Any]:
    return {
        "kind": file.kind,
        "partition": NO_PARTITION,
        "bucket": file.bucket,
        "total_buckets": 1,
        "name": file.name,
        "size_bytes": 7,
        "rows": 1,
        "schema_id": 0,
        "level": file.level,
        "extra_files": list(file.extra),
        "creation_time": 1_700_000_000_123,
        "file_source": 0,
        "external_path": file.external_path,
        "embedded_index": file.embedded,
        **other,
    }


def rows() -> list[dict[str, Any]]:
    return [file.row() for file in FILES]


@pytest.mark.parametrize("codec", CODECS)
def test_manifests_of_every_codec_are_read(codec: str) -> None:
    assert read(encode(entry_schema(), rows(), codec)) == [expected(file) for file in FILES]


@pytest.mark.parametrize("codec", CODECS)
def test_manifests_of_old_writers_are_read(codec: str) -> None:
    # They wrote records that may be null, and knew no external paths.
    found = read(encode(entry_schema(old=True), rows(), codec))
    assert found == [expected(file, external_path=None) for file in FILES]


def java_rows(java_tables: JavaWarehouses, pattern: str) -> tuple[bytes, pa.Table]:
    """A file of Java's as it is, and its rows as Arrow."""
    path = next((java_tables.table("pk_dv").folder / "manifest").glob(pattern))
    data = path.read_bytes()
    reader = fastavro.reader(io.BytesIO(data))
    schema = pa.schema(list(arrow_type(reader.writer_schema)))
    return data, pa.Table.from_pylist(list(reader), schema=schema)


@pytest.mark.parametrize("write", [as_parquet, as_orc])
def test_manifests_in_other_formats_are_read_alike(
    write: Callable[[pa.Table], bytes], java_tables: JavaWarehouses
) -> None:
    data, table = java_rows(java_tables, "manifest-[0-9]*-0")
    assert read(write(table)) == read(data)


@pytest.mark.parametrize("write", [as_parquet, as_orc])
def test_lists_in_other_formats_are_read_alike(
    write: Callable[[pa.Table], bytes], java_tables: JavaWarehouses
) -> None:
    data, table = java_rows(java_tables, "manifest-list-*-1")
    assert read_manifest_list("l", write(table)).equals(read_manifest_list("l", data))


@pytest.mark.parametrize("write", [as_parquet, as_orc])
def test_index_manifests_in_other_formats_are_read_alike(
    write: Callable[[pa.Table], bytes], java_tables: JavaWarehouses
) -> None:
    data, table = java_rows(java_tables, "index-manifest-*")
    assert read_index_manifest("i", write(table)).equals(read_index_manifest("i", data))


@pytest.mark.parametrize("name", TABLES)
def test_manifests_of_java_are_read_as_an_independent_reader_does(
    name: str, java_tables: JavaWarehouses
) -> None:
    for path in java_manifests(java_tables.table(name).folder):
        data = path.read_bytes()
        reference: list[Any] = list(fastavro.reader(io.BytesIO(data)))
        assert [known(row) for row in read(data)] == [plain(row) for row in reference]


def java_manifests(folder: Path) -> list[Path]:
    found = (folder / "manifest").glob("manifest-*")
    return [
        path
        for path in found
        if "list" not in path.name and path.read_bytes().startswith(b"Obj\x01")
    ]


def known(row: dict[str, Any]) -> dict[str, Any]:
    """Without the moment, of which fastavro makes another type."""
    return {key: value for key, value in row.items() if key != "creation_time"}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    file = row["_FILE"]
    return {
        "kind": row["_KIND"],
        "partition": row["_PARTITION"],
        "bucket": row["_BUCKET"],
        "total_buckets": row["_TOTAL_BUCKETS"],
        "name": file["_FILE_NAME"],
        "size_bytes": file["_FILE_SIZE"],
        "rows": file["_ROW_COUNT"],
        "schema_id": file["_SCHEMA_ID"],
        "level": file["_LEVEL"],
        "extra_files": file["_EXTRA_FILES"],
        "file_source": file["_FILE_SOURCE"],
        "external_path": file.get("_EXTERNAL_PATH"),
        "embedded_index": file["_EMBEDDED_FILE_INDEX"],
    }


def test_embedded_indexes_are_left_out_unless_asked_for() -> None:
    data = encode(entry_schema(), rows())
    (batch,) = read_manifest("manifest-1", data)
    assert batch.schema.equals(ENTRIES)


def test_lists_tell_of_sidecars() -> None:
    row = Table().manifest(File("data-a.parquet"), _EXTRA_FILES=["m.avro.sidecar"])
    found = read_manifest_list("l", encode(LIST_SCHEMA, [row]))
    assert found["extra_files"].to_pylist() == [["m.avro.sidecar"]]


def test_lists_without_manifests_are_empty() -> None:
    assert read_manifest_list("l", encode(LIST_SCHEMA, [])).equals(MANIFESTS.empty_table())


def test_index_manifests_tell_which_index_is_over_the_whole_table() -> None:
    files = [Index("index-1"), Index("btree-1.index", type="btree", first_row=4)]
    found = read_index_manifest("i", encode(INDEX_SCHEMA, [file.row() for file in files]))
    assert found.schema.equals(INDEX_ENTRIES)
    assert found["first_row"].to_pylist() == [None, 4]


def test_a_manifest_with_all_entries_that_its_list_counts_is_whole() -> None:
    data = encode(entry_schema(), rows())
    assert len(read(data, size_bytes=len(data), entries=2)) == 2


def test_fewer_entries_than_the_list_counts_are_an_error() -> None:
    with pytest.raises(TruncatedError, match="has 2 of 3 entries"):
        read(encode(entry_schema(), rows()), entries=3)


def test_fewer_bytes_than_the_list_counts_are_an_error() -> None:
    with pytest.raises(TruncatedError, match="of 99999 bytes"):
        read(encode(entry_schema(), rows()), size_bytes=99_999)


@pytest.mark.parametrize("change", [{"_VERSION": 1}, {"_VERSION": 3}])
def test_entries_of_unknown_versions_are_an_error(change: dict[str, int]) -> None:
    with pytest.raises(DamagedError, match="and only 2 is known"):
        read(encode(entry_schema(), [FILES[0].row() | change]))


def test_an_entry_without_a_name_is_an_error() -> None:
    with pytest.raises(DamagedError, match="names no file"):
        read(encode(entry_schema(), [File("").row()]))


def test_an_unknown_kind_of_entry_is_an_error() -> None:
    with pytest.raises(DamagedError, match="neither added nor deleted"):
        read(encode(entry_schema(), [File("data-a.parquet", kind=2).row()]))


def test_what_is_no_manifest_is_an_error() -> None:
    with pytest.raises(DamagedError):
        read(encode(LIST_SCHEMA, [Table().manifest()]))


@pytest.mark.parametrize("magic", [b"PAR1", b"ORC"])
def test_other_formats_that_end_too_early_are_an_error(magic: bytes) -> None:
    with pytest.raises((TruncatedError, DamagedError)):
        read(magic + b"half of a file")
