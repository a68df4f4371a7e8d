"""Records that we write, as another library reads them."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.avro.records import read_records
from lakesweep.avro.writer import encode_avro
from lakesweep.errors import FormatError, UnsupportedError
from tests.random_tests import examples

SCHEMA: Any = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "int", "type": "int"},
        {"name": "long", "type": "long"},
        {"name": "double", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "bytes", "type": ["null", "bytes"]},
        {"name": "last", "type": ["string", "null"]},
        {"name": "fixed", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "counts", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "part", "fields": [{"name": "n", "type": "int"}]},
        },
        {"name": "again", "type": ["null", "part"]},
    ],
}
_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)
_PART = st.fixed_dictionaries({"n": _INT})
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "flag": st.booleans(),
            "int": _INT,
            "long": _LONG,
            "double": st.floats(allow_nan=False),
            "text": st.text(),
            "bytes": st.none() | st.binary(),
            "last": st.none() | st.text(),
            "fixed": st.binary(min_size=4, max_size=4),
            "counts": st.none() | st.lists(st.none() | _LONG),
            "map": st.dictionaries(st.text(), _LONG),
            "inner": _PART,
            "again": st.none() | _PART,
        }
    )
)


@examples(50)
@given(RECORDS, st.sampled_from(["null", "deflate", "snappy", "zstandard"]))
def test_others_read_what_we_write_and_we_what_they_write(records: list[Any], codec: str) -> None:
    ours = encode_avro(SCHEMA, records, codec)
    assert list(fastavro.reader(io.BytesIO(ours))) == records
    assert list(read_records("ours", ours)) == records
    theirs = io.BytesIO()
    fastavro.writer(theirs, SCHEMA, records, codec)
    assert list(read_records("theirs", theirs.getvalue())) == records


def test_many_records_are_written_in_blocks() -> None:
    schema: Any = {"type": "record", "name": "row", "fields": [{"name": "text", "type": "string"}]}
    records = [{"text": "x" * 1000} for _ in range(500)]
    data = encode_avro(schema, records, "zstandard")
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 5
    assert [record for block in blocks for record in block] == records


def test_a_file_without_records_has_its_schema() -> None:
    data = encode_avro(SCHEMA, [], "zstandard")
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader) == []
    assert reader.writer_schema is not None


def test_logical_types_are_left_as_they_are() -> None:
    time: Any = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "row", "fields": [{"name": "at", "type": time}]}
    far = [{"at": 2**62}]
    assert list(read_records("far", encode_avro(schema, far, "null"))) == far


def test_a_field_that_a_record_lacks_is_null() -> None:
    schema: Any = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "new", "type": ["null", "long"]}],
    }
    assert list(read_records("old", encode_avro(schema, [{}], "null"))) == [{"new": None}]


def test_a_codec_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="not written"):
        encode_avro(SCHEMA, [], "lzma")


@examples(50)
@given(st.data())
def test_damage_is_told_or_changes_values_and_never_anything_else(data: st.DataObject) -> None:
    good = bytearray(encode_avro(SCHEMA, data.draw(RECORDS), "null"))
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    with suppress(FormatError):
        list(read_records("damaged", bytes(good)))
