"""Manifests in Avro, ORC and Parquet that are read, and written in the same format again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakesweep.errors import DamagedError, TruncatedError, UnsupportedError
from lakesweep.paimon.manifests.row_formats import read_format, read_rows, widest
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from tests.paimon_states import index_names, live_files, newest, records
from tests.paimon_tables import (
    INDEX_SCHEMA,
    LIST_SCHEMA,
    File,
    Index,
    Row,
    Table,
    as_orc,
    as_parquet,
    encode,
    encode_as,
    entry_schema,
)

Encode = Callable[[Any, Iterable[Row]], bytes]
FIRST, SECOND = (encode_row([value], [parse_type("STRING")]) for value in ("a", "b"))
ENCODINGS = {"ORC": encode_as(as_orc), "PAR1": encode_as(as_parquet)}
FILES = (
    File("a", extra=("a.index",), external_path="s3://x/a", embedded=b"\0\xff"),
    File("b", kind=1, bucket=-2, level=5),
)


def rows() -> list[Row]:
    return [file.row() for file in FILES]


def arrow_table(data: bytes) -> pa.Table:
    if data.startswith(b"ORC"):
        return orc.ORCFile(io.BytesIO(data)).read()
    return pq.read_table(io.BytesIO(data))


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_what_is_written_has_the_rows_the_schema_and_the_codec_of_what_was_read(
    encoded: Encode,
) -> None:
    index = Index("i", first_row=4).row(), Index("j").row()
    for data in (encoded(entry_schema(), rows()), encoded(INDEX_SCHEMA, list(index))):
        again = read_format("m", data).encode(read_rows("m", data))
        assert arrow_table(again).equals(arrow_table(data), check_metadata=True)
        assert read_format("m", again) == read_format("m", data)


def test_the_schema_of_parquet_is_the_same_to_the_last_repetition() -> None:
    data = ENCODINGS["PAR1"](entry_schema(), rows())
    again = read_format("m", data).encode(read_rows("m", data))
    schemas = [pq.ParquetFile(io.BytesIO(each)).schema for each in (data, again)]
    assert schemas[0].equals(schemas[1])
    assert not pq.ParquetFile(io.BytesIO(again)).metadata.metadata  # nothing of Arrow's


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_moments_are_kept_to_the_last_digit(encoded: Encode) -> None:
    files = [row["_FILE"] for row in read_rows("m", encoded(entry_schema(), rows()))]
    assert {file["_CREATION_TIME"] for file in files} <= {
        1_700_000_000_123,
        1_700_000_000_123 * 10**6,
    }


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_fields_that_only_older_files_have_stay_behind_the_others(encoded: Encode) -> None:
    newer, older = entry_schema(old=True)[1], entry_schema()
    formats = [read_format("m", encoded(each, rows())) for each in (older, _plain(newer))]
    data = widest("t", formats).encode(rows())
    assert [row["_FILE"]["_EXTERNAL_PATH"] for row in read_rows("m", data)] == ["s3://x/a", None]


def _plain(schema: Any) -> Any:
    """Old manifests without the unions that only Avro has."""
    fields = schema["fields"]
    return {**schema, "fields": [*fields[:-1], {**fields[-1], "type": fields[-1]["type"][1]}]}


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_partitions_of_tables_with_other_manifests_are_dropped(encoded: Encode) -> None:
    made = Table(partition_keys=["k"], options={"manifest.merge-min-count": "2"}, encode=encoded)
    first = made.manifest(File("x", partition=FIRST), File("y", partition=SECOND))
    second = made.manifest(File("z", partition=SECOND))
    indexes = made.index_manifest(Index("i-1", partition=FIRST), Index("i-2", partition=SECOND))
    made.snapshot(1, second, base=[first], totalRecordCount=3, indexManifest=indexes)
    table = PaimonTable.open(made.bucket.stores, made.address)
    snapshot = drop_partitions(table.main, lambda _: [FIRST]).snapshot
    assert snapshot is not None
    assert set(live_files(table, newest(table))) == {"k=b/bucket-0/y", "k=b/bucket-0/z"}
    assert index_names(table, snapshot) == {"i-2"}
    (base,) = records(table, snapshot.base_manifest_list)  # both manifests became one
    assert base["_NUM_ADDED_FILES"] == 3


def test_an_index_manifest_that_has_lost_its_last_entry_is_still_one() -> None:
    for encoded in ENCODINGS.values():
        data = encoded(INDEX_SCHEMA, [Index("i").row()])
        assert read_rows("i", read_format("i", data).encode([])) == []


def test_a_table_with_manifests_in_two_formats_is_refused() -> None:
    made = Table(partition_keys=["k"])
    avro = made.manifest(File("x", partition=FIRST))
    made.encode = ENCODINGS["ORC"]
    made.snapshot(1, base=[avro], totalRecordCount=1)
    table = PaimonTable.open(made.bucket.stores, made.address)
    with pytest.raises(UnsupportedError, match="in more than one format"):
        drop_partitions(table.main, lambda _: [FIRST])
    assert table.main.snapshot_ids() == [1]


def test_files_of_no_known_format_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="neither Avro nor ORC nor Parquet"):
        read_format("m", b"lance")


def test_codecs_that_cannot_be_written_are_refused() -> None:
    how = read_format("m", ENCODINGS["ORC"](entry_schema(), rows()))
    with pytest.raises(UnsupportedError, match="cannot be written"):
        type(how)(how.schema, "lzo").encode(rows())  # type: ignore[call-arg, attr-defined]


@pytest.mark.parametrize("encoded", ENCODINGS.values(), ids=ENCODINGS)
def test_damaged_files_are_told(encoded: Encode) -> None:
    data = encoded(entry_schema(), rows())
    with pytest.raises((DamagedError, TruncatedError)):
        read_rows("m", data[:-9])


def test_a_list_cut_behind_its_header_is_not_committed_to() -> None:
    made = Table(partition_keys=["k"])
    added = [made.manifest(File(name, partition=FIRST)) for name in "xy"]
    document = made.snapshot(2, added[1], base=added[:1], totalRecordCount=2, deltaRecordCount=1)
    made.write(f"manifest/{document['baseManifestList']}", encode(LIST_SCHEMA, []))
    table = PaimonTable.open(made.bucket.stores, made.address)
    with pytest.raises(TruncatedError, match="names no manifest"):
        drop_partitions(table.main, lambda _: [FIRST])
