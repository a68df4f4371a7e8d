"""Manifest lists and manifests, written here entry by entry."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import DamagedError, EncryptedError, FormatError, TruncatedError
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.manifests import read_manifest, read_manifest_list

PATH = "s3://lake/t/metadata/m0.avro"


def field(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "field-id": number, "type": kind}


LIST_SCHEMA = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("content", 517, "int"),
        field("added_files_count", 504, ["null", "int"]),
        field("existing_files_count", 505, ["null", "int"]),
        field("deleted_files_count", 506, ["null", "int"]),
    ],
}
FILE_FIELDS = [
    field("content", 134, "int"),
    field("file_path", 100, "string"),
    field("file_format", 101, "string"),
    field("file_size_in_bytes", 104, "long"),
]


def entry_schema(fields: list[dict[str, Any]]) -> dict[str, Any]:
    data_file = {"type": "record", "name": "r2", "fields": fields}
    fields = [field("status", 0, "int"), field("data_file", 2, data_file)]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def encode(schema: dict[str, Any], records: list[dict[str, Any]], interval: int = 16_000) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records, codec="deflate", sync_interval=interval)
    return buffer.getvalue()


def entry(status: int = 1, content: int = 0, name: str = "a", file_format: str = "PARQUET") -> Any:
    return {
        "status": status,
        "data_file": {
            "content": content,
            "file_path": f"s3://lake/t/data/{name}" if name else "",
            "file_format": file_format,
            "file_size_in_bytes": 7,
        },
    }


def manifest(*entries: Any, interval: int = 16_000) -> bytes:
    return encode(entry_schema(FILE_FIELDS), list(entries), interval)


def kinds(data: bytes) -> list[str]:
    return [kind for batch in read_manifest(PATH, data) for kind in batch["kind"].to_pylist()]


@pytest.mark.parametrize(
    ("content", "file_format", "kind"),
    [
        (0, "PARQUET", IcebergKind.DATA),
        (0, "avro", IcebergKind.DATA),
        (1, "PARQUET", IcebergKind.POSITION_DELETE),
        (1, "PUFFIN", IcebergKind.DELETION_VECTOR),
        (1, "puffin", IcebergKind.DELETION_VECTOR),
        (2, "ORC", IcebergKind.EQUALITY_DELETE),
    ],
)
def test_each_content_type_is_a_kind(content: int, file_format: str, kind: IcebergKind) -> None:
    assert kinds(manifest(entry(content=content, file_format=file_format))) == [kind]


def test_only_live_entries_name_files() -> None:
    data = manifest(entry(0, name="old"), entry(1, name="new"), entry(2, name="gone"))
    (batch,) = read_manifest(PATH, data)
    assert batch["path"].to_pylist() == ["s3://lake/t/data/old", "s3://lake/t/data/new"]
    assert batch["size_bytes"].to_pylist() == [7, 7]


def test_a_manifest_without_content_types_holds_data() -> None:
    first = [one for one in FILE_FIELDS if one["name"] != "content"]
    assert kinds(encode(entry_schema(first), [entry()])) == [IcebergKind.DATA]


@pytest.mark.parametrize("bad", [entry(status=3), entry(status=-1), entry(content=3)])
def test_codes_that_are_not_known_are_damage(bad: Any) -> None:
    with pytest.raises(DamagedError, match="unknown"):
        kinds(manifest(bad))


def test_an_entry_without_a_path_is_damage() -> None:
    with pytest.raises(DamagedError, match="no file path"):
        kinds(manifest(entry(name="")))


def test_a_manifest_without_paths_is_damage() -> None:
    with pytest.raises(DamagedError, match="path"):
        kinds(encode(entry_schema([FILE_FIELDS[0]]), [entry()]))


def cut_after_first_block(data: bytes) -> bytes:
    """The file without all blocks but the first: what is left is whole as far as Avro can tell."""
    sync = data[-16:]
    header = data.index(sync) + 16
    return data[: data.index(sync, header) + 16]


def test_a_manifest_cut_between_two_blocks_is_truncated() -> None:
    data = manifest(*(entry(name=f"{n:05d}") for n in range(200)), interval=500)
    cut = cut_after_first_block(data)
    assert 0 < len(kinds(cut)) < 200
    with pytest.raises(TruncatedError):
        list(read_manifest(PATH, cut, size_bytes=len(data), entries=200))
    with pytest.raises(TruncatedError):
        list(read_manifest(PATH, cut, size_bytes=len(data), entries=None))


def test_a_manifest_of_which_nothing_is_known_must_name_something() -> None:
    with pytest.raises(TruncatedError):
        kinds(manifest())
    assert list(read_manifest(PATH, manifest(), entries=0)) == []


def test_a_wrong_size_in_the_list_is_forgiven_when_all_entries_are_there() -> None:
    data = manifest(entry(), entry(2))
    assert list(read_manifest(PATH, data, size_bytes=len(data) + 9, entries=2))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", TruncatedError),
        (b"Obj", TruncatedError),
        (b"not avro at all", DamagedError),
        (b"AGS1" + bytes(100), EncryptedError),
        (b"PARE" + bytes(100), EncryptedError),
        (b"PAR1" + bytes(100), TruncatedError),
        (b"PAR1" + bytes(100) + b"PAR1", DamagedError),
        pytest.param(manifest(entry())[:-1], TruncatedError, id="cut"),  # its bytes are random
    ],
)
def test_what_is_no_manifest_is_told_apart(data: bytes, error: type[FormatError]) -> None:
    with pytest.raises(error) as caught:
        kinds(data)
    assert caught.value.path == PATH


def test_a_parquet_manifest_of_another_shape_is_damage() -> None:
    status = pa.field("status", pa.int32(), metadata={"PARQUET:field_id": "0"})
    data_file = pa.field("data_file", pa.int32(), metadata={"PARQUET:field_id": "2"})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([[1], [2]], schema=pa.schema([status, data_file])), sink)
    with pytest.raises(DamagedError, match="has no column"):
        kinds(sink.getvalue().to_pybytes())


def parquet_manifest() -> bytes:
    def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    data_file = pa.struct(
        [
            numbered("content", pa.int32(), 134),
            numbered("location_of_file", pa.string(), 100),
            numbered("file_format", pa.string(), 101),
        ]
    )
    schema = pa.schema([numbered("status", pa.int32(), 0), numbered("data_file", data_file, 2)])
    row = {"content": 1, "location_of_file": "s3://lake/t/d.puffin", "file_format": "PUFFIN"}
    table = pa.Table.from_pylist([{"status": 1, "data_file": row}], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def test_parquet_columns_are_found_by_field_id() -> None:
    (batch,) = read_manifest(PATH, parquet_manifest())
    assert batch.to_pylist() == [
        {
            "path": "s3://lake/t/d.puffin",
            "kind": "deletion-vector",
            "size_bytes": None,
            "modified": None,
            "etag": None,
        }
    ]


def test_damage_inside_parquet_is_told() -> None:
    data = bytearray(parquet_manifest())
    data[data.index(b"lake/t/d.puffin")] ^= 0xFF
    with pytest.raises(DamagedError):
        kinds(bytes(data))


def test_a_list_counts_entries_and_live_data_files() -> None:
    rows = [
        {
            "manifest_path": f"s3://lake/t/m{content}.avro",
            "manifest_length": 100,
            "content": content,
            "added_files_count": 1,
            "existing_files_count": 2,
            "deleted_files_count": 4,
        }
        for content in (0, 1)
    ]
    table = read_manifest_list(PATH, encode(LIST_SCHEMA, rows))
    assert table["entries"].to_pylist() == [7, 7]
    assert table["live_data_files"].to_pylist() == [3, 0]
    assert table["size_bytes"].to_pylist() == [100, 100]


def test_a_list_may_leave_its_counts_out() -> None:
    row = {"manifest_path": "s3://lake/t/m.avro", "manifest_length": 1, "content": 0}
    (found,) = read_manifest_list(PATH, encode(LIST_SCHEMA, [row])).to_pylist()
    assert found["entries"] is None
    assert found["live_data_files"] is None


def test_an_empty_list_is_a_table_without_rows() -> None:
    assert read_manifest_list(PATH, encode(LIST_SCHEMA, [])).num_rows == 0
