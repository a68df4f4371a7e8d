from __future__ import annotations

import json
import random
import zlib
from typing import Any

import numpy as np
import pytest

from lakesweep.avro import ProjectedColumn, read_avro, read_header
from lakesweep.avro.container import find_blocks, find_codec, read_raw_header
from lakesweep.avro.reader import plan_decoding
from lakesweep.avro.records import read_records
from lakesweep.errors import (
    DamagedError,
    EncryptedError,
    FormatError,
    LimitError,
    TruncatedError,
)
from lakesweep.untrusted.limits import ReadLimits
from tests.avro_files import (
    CODECS,
    SYNC,
    array,
    column,
    file_of,
    long,
    record,
    rows,
    text,
    write_avro,
)

PAIR = record(("key", "int"), ("value", "bytes"), name="pair")
COUNT = record(("key", "int"), ("value", "long"), name="count")
SCHEMA = record(
    ("status", "int"),
    ("path", "string"),
    ("maybe", ["null", "long"]),
    ("counts", ["null", array(COUNT)]),
    ("bounds", ["null", array(PAIR)]),
    ("tags", {"type": "map", "values": ["null", "string"]}),
    ("flag", "boolean"),
    ("ratio", "double"),
    ("names", array("string")),
    ("kind", {"type": "enum", "name": "kind", "symbols": ["A", "B"]}),
)
COLUMNS = [
    ProjectedColumn(name, names=(name,))
    for name in ("status", "path", "maybe", "flag", "ratio", "names", "kind")
]
RECORDS: list[dict[str, Any]] = [
    {
        "status": i % 3,
        "path": f"s3://bucket/table/data/{i:05d}.parquet",
        "maybe": None if i % 2 else i * 1000,
        "counts": [{"key": k, "value": k * i} for k in range(i % 5)],
        "bounds": None if i % 3 else [{"key": k, "value": bytes(8)} for k in range(4)],
        "tags": {"a": "b", "c": None},
        "flag": bool(i % 2),
        "ratio": i / 7,
        "names": ["x", "yy"][: i % 3],
        "kind": "AB"[i % 2],
    }
    for i in range(12)
]


def one(body: bytes, type_: Any, count: int = 1) -> list[Any]:
    """The values of files whose only block is `body`."""
    return column(file_of(record(("it", type_)), (count, body)), "it")


def rows_or_error(data: bytes) -> list[dict[str, Any]] | FormatError:
    try:
        return rows(data, COLUMNS)
    except (TruncatedError, DamagedError) as error:
        return error


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_anywhere_is_truncated_or_ends_after_a_block(codec: str) -> None:
    data = write_avro(SCHEMA, RECORDS, codec, sync_interval=200)
    ends = {len(data)} | {i + 16 for i in range(len(data)) if data[i : i + 16] == SYNC}
    whole = rows(data, COLUMNS)
    for size in range(len(data)):
        if size in ends:
            assert rows(data[:size], COLUMNS) == whole[: len(rows(data[:size], COLUMNS))]
        else:
            with pytest.raises(TruncatedError, match=r"some\.avro"):
                rows(data[:size], COLUMNS)


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_give_rows_or_an_error_and_nothing_else(codec: str) -> None:
    data = write_avro(SCHEMA, RECORDS, codec, sync_interval=400)
    chance = random.Random(7)
    raised = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 1, 1, 5])):
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        found = rows_or_error(bytes(damaged))
        if isinstance(found, FormatError):
            assert found.path == "some.avro"
            raised += 1
        else:
            assert len(found) <= len(RECORDS)
    assert raised > 300


@pytest.mark.parametrize("codec", CODECS)
def test_overwritten_bytes_give_rows_or_an_error_and_nothing_else(codec: str) -> None:
    data = write_avro(SCHEMA, RECORDS, codec)
    chance = random.Random(8)
    for _ in range(700):
        start = chance.randrange(len(data))
        junk = chance.choice([chance.randbytes(9), b"\xff" * 9, b"\x80" * 9, bytes(9)])
        damaged = (data[:start] + junk + data[start + 9 :])[: len(data)]
        found = rows_or_error(damaged)
        assert not isinstance(found, FormatError) or found.path == "some.avro"


class TestHeaders:
    SCHEMA = record(("it", "long"))

    @pytest.mark.parametrize("data", [b"", b"O", b"Obj", b"Obj\x01", b"Obj\x01\x02"])
    def test_that_end_too_early_are_truncated(self, data: bytes) -> None:
        with pytest.raises(TruncatedError):
            read_header("x", data)

    @pytest.mark.parametrize("data", [b"PAR1....", b"ORC", b"Obj\x02", b"{}"])
    def test_of_other_formats_are_damage(self, data: bytes) -> None:
        with pytest.raises(DamagedError, match="is not an Avro file"):
            read_header("x", data)

    def test_of_encrypted_streams_say_so(self) -> None:
        with pytest.raises(EncryptedError, match="encrypted"):
            column(b"AGS1" + bytes(100), "it")

    def test_with_an_unknown_codec_say_which(self) -> None:
        with pytest.raises(DamagedError, match="codec 'lzo' is not known"):
            column(file_of(self.SCHEMA, codec="lzo"), "it")

    def test_without_a_schema_are_damage(self) -> None:
        with pytest.raises(DamagedError, match="no schema"):
            column(b"Obj\x01" + long(0) + SYNC, "it")

    @pytest.mark.parametrize(
        "metadata",
        [
            long(1) + text("avro.schema") + text("{"),
            long(1) + text("avro.schema") + text("[" * 100_000),
            long(1) + text("avro.schema") + long(1) + b"\xff",
            long(1) + long(1) + b"\xff" + text("x"),
            long(1) + long(-1),
            b"\xff" * 11,
            long(2) + text("avro.codec") + long(1) + b"\xff" + text("avro.schema") + text('"int"'),
        ],
    )
    def test_that_make_no_sense_are_damage(self, metadata: bytes) -> None:
        with pytest.raises(DamagedError):
            column(b"Obj\x01" + metadata + long(0) + SYNC, "it")

    @pytest.mark.parametrize(
        ("schema", "reason"),
        [
            ("nothing", "'nothing' is not defined"),
            (7, "is not a type"),
            ({"type": "record", "fields": []}, "has no name"),
            ({"type": "record", "name": "x"}, "has no fields"),
            ({"type": "record", "name": "x", "fields": [{"type": "int"}]}, "field has no name"),
            ({"type": "record", "name": "x", "fields": [{"name": "y"}]}, "is not a type"),
            ({"type": "array"}, "is not a type"),
            ({"type": "enum", "name": "x"}, "no symbols"),
            ({"type": "fixed", "name": "x", "size": -1}, "has the size -1"),
            (record(("a", record(name="row"))), "defined twice"),
        ],
    )
    def test_with_a_wrong_schema_say_why(self, schema: Any, reason: str) -> None:
        with pytest.raises(DamagedError, match=reason):
            column(file_of(schema), "it")

    def test_with_a_schema_nested_too_deeply_are_damage(self) -> None:
        nested = json.loads('{"type": "array", "items": ' * 900 + '"int"' + "}" * 900)
        with pytest.raises(DamagedError, match="nested too deeply"):
            column(file_of(record(("it", "int"), ("deep", nested))), "it")


class TestBlocks:
    DATA = write_avro(record(("it", "long")), [{"it": i} for i in range(9)], sync_interval=3)
    FIRST = DATA.index(SYNC) + 16

    def changed(self, place: int, value: bytes) -> bytes:
        return self.DATA[:place] + value + self.DATA[place + len(value) :]

    def test_with_a_wrong_mark_are_damage(self) -> None:
        with pytest.raises(DamagedError, match=r"mark after a block .*byte"):
            column(self.changed(self.FIRST + 8, b"\xff"), "it")

    def test_with_more_records_than_they_hold_are_damage(self) -> None:
        with pytest.raises(DamagedError, match=r"beyond the end|more records"):
            column(self.changed(self.FIRST, long(5)), "it")

    def test_with_fewer_records_than_they_hold_are_damage(self) -> None:
        with pytest.raises(DamagedError, match="left after the last record"):
            column(self.changed(self.FIRST, long(1)), "it")

    @pytest.mark.parametrize(("count", "reason"), [(-1, "negative"), (2**40, "more records")])
    def test_with_an_absurd_number_of_records_are_damage(self, count: int, reason: str) -> None:
        with pytest.raises(DamagedError, match=reason):
            one(long(1), "long", count)

    def test_of_rows_without_bytes_may_not_claim_any_number_of_them(self) -> None:
        empty = record(name="nothing")
        assert column(file_of(empty, (1000, b"")), "it") == [None] * 1000
        with pytest.raises(DamagedError, match="more records"):
            column(file_of(empty, (2**40, b"")), "it")

    def test_with_a_negative_size_are_damage(self) -> None:
        header = file_of(record(("it", "long")))
        with pytest.raises(DamagedError, match="length is negative"):
            column(header + long(1) + long(-5) + bytes(50), "it")

    def test_with_an_endless_number_are_damage(self) -> None:
        header = file_of(record(("it", "long")))
        with pytest.raises(DamagedError, match="more than 10 bytes"):
            column(header + b"\xff" * 50, "it")


class TestValues:
    LONGEST = b"\xff" * 9 + b"\x01"

    def test_of_ten_bytes_are_the_longest_numbers(self) -> None:
        assert one(self.LONGEST, "long") == [-(2**63)]
        with pytest.raises(DamagedError, match="more than 10 bytes"):
            one(b"\xff" * 9 + b"\x02", "long")

    @pytest.mark.parametrize(
        ("type_", "body", "reason"),
        [
            ("long", b"\xff", "beyond the end"),
            ("int", long(2**31), "more than 32 bits"),
            ("boolean", b"\x02", "neither 0 nor 1"),
            ("boolean", b"", "more records than bytes"),
            ("double", bytes(7), "beyond the end"),
            ("float", bytes(3), "beyond the end"),
            ("string", long(-1), "length is negative"),
            ("string", long(5) + b"abcd", "beyond the end"),
            ("bytes", long(2**62), "beyond the end"),
            ("string", long(1) + b"\xff", "not UTF-8"),
            ({"type": "fixed", "name": "f", "size": 4}, bytes(3), "beyond the end"),
            ({"type": "enum", "name": "e", "symbols": ["A"]}, long(1), "symbol"),
            ({"type": "enum", "name": "e", "symbols": ["A"]}, long(-1), "symbol"),
            (["null", "long"], long(2), "branch"),
            (["null", "long"], long(-1), "branch"),
            (array("long"), long(2**40), "more items than bytes"),
            (array("long"), long(-(2**63)) + long(0), "more items than bytes"),
            (array("long"), long(-1) + long(2) + long(5) + long(0), "do not fill"),
            (array("long"), long(-1) + long(-1), "length is negative"),
        ],
    )
    def test_that_contradict_the_format_are_damage(
        self, type_: Any, body: bytes, reason: str
    ) -> None:
        with pytest.raises(DamagedError, match=reason):
            one(body, type_)

    @pytest.mark.parametrize(
        ("type_", "body", "reason"),
        [
            ("long", b"\xff" * 3, "beyond the end"),
            ("string", long(-1), "length is negative"),
            ("double", bytes(3), "beyond the end"),
            (["null", "string"], long(2), "branch"),
            (["null", "string"], long(1) + long(9), "beyond the end"),
            (["string", "long", "null"], long(3), "branch"),
            (array("long"), long(2**40), "more items than bytes"),
            (array("double"), long(2), "more items than bytes"),
            (array(COUNT), long(2) + bytes(3), "more items than bytes"),
            (array(PAIR), long(2**40), "more items than bytes"),
            (array(PAIR), long(1) + long(1) + long(60) + bytes(9), "beyond the end"),
            (array(PAIR), long(1) + b"\xff" * 9, "beyond the end"),
            (array(PAIR), long(-1) + long(2**62), "beyond the end"),
            ({"type": "map", "values": "string"}, long(2**40), "more items than bytes"),
            ({"type": "map", "values": "string"}, long(1) + text("a"), "beyond the end"),
        ],
    )
    def test_that_are_skipped_may_not_leave_their_block(
        self, type_: Any, body: bytes, reason: str
    ) -> None:
        schema = record(("skipped", type_), ("it", "long"))
        with pytest.raises(DamagedError, match=reason):
            column(file_of(schema, (1, body)), "it")


class TestCodecs:
    SCHEMA = record(("it", "long"))

    def test_of_snappy_check_the_checksum(self) -> None:
        data = bytearray(write_avro(self.SCHEMA, [{"it": 1}], "snappy"))
        data[-17] ^= 1
        with pytest.raises(DamagedError, match="snappy data: its checksum is wrong"):
            column(bytes(data), "it")

    @pytest.mark.parametrize("codec", CODECS[1:])
    @pytest.mark.parametrize("body", [b"", b"\xff" * 5, b"\x00" * 2000])
    def test_of_other_data_are_damage(self, codec: str, body: bytes) -> None:
        with pytest.raises(DamagedError, match=f"not {codec} data"):
            column(file_of(self.SCHEMA, (1, body), codec=codec), "it")

    def test_of_deflate_may_have_a_checksum_behind_them(self) -> None:
        body = zlib.compress(long(5))[2:]
        assert column(file_of(self.SCHEMA, (1, body), codec="deflate"), "it") == [5]

    @pytest.mark.parametrize("codec", CODECS)
    def test_refuse_blocks_that_grow_beyond_measure(self, codec: str) -> None:
        data = write_avro(record(("it", "bytes")), [{"it": bytes(9_997)}], codec)
        block = memoryview(data)[data.index(SYNC) + 16 : -16]
        block = block[len(long(1)) + len(long(len(block) - 3)) :]
        assert len(find_codec("x", codec, ReadLimits(block_bytes=10_000))(block)) == 10_000
        with pytest.raises(DamagedError):
            find_codec("x", codec, ReadLimits(block_bytes=9_999))(block)

    def test_refuse_files_whose_blocks_together_grow_beyond_measure(self) -> None:
        data = file_of("bytes", *[(1, long(100) + bytes(100))] * 5)
        inflate = find_codec("x", "null", ReadLimits(inflated_bytes=202 * 2))
        table = np.concatenate(list(find_blocks(read_raw_header("x", data), data))).tolist()
        for first, end, _ in table[:3]:
            inflate(memoryview(data)[first:end])
        with pytest.raises(LimitError, match=r"x: inflates to more than 404 bytes"):
            inflate(memoryview(data)[slice(*table[3][:2])])


class TestHostileSchemas:
    """Schemas that cost more than the data that they describe."""

    def test_records_that_hold_nothing_cost_nothing(self) -> None:
        kind: Any = record(("leaf", "null"), name="r0")
        for level in range(1, 60):
            kind = record(("a", kind), ("b", f"r{level - 1}"), name=f"r{level}")
        schema = record(("deep", kind), ("it", "long"))
        assert column(file_of(schema, (1, long(7))), "it") == [7]

    def test_a_header_with_countless_entries_is_damage(self) -> None:
        data = b"Obj\x01" + long(2**40) + (text("a") + text("b")) * 20_000
        with pytest.raises(DamagedError, match="too many entries"):
            column(data, "it")

    def test_a_schema_of_many_megabytes_is_refused(self) -> None:
        schema = {**record(("it", "long")), "doc": "x" * 2**24}
        with pytest.raises(LimitError, match="its schema has"):
            column(file_of(schema, (1, long(7))), "it")

    def test_a_large_schema_is_not_kept_in_memory(self) -> None:
        schema = {**record(("it", "long")), "doc": "x" * 2**21}
        plan_decoding.cache_clear()
        assert column(file_of(schema, (1, long(7))), "it") == [7]
        assert plan_decoding.cache_info().currsize == 0


class TestRecords:
    """Reading records as values, for files that are rewritten."""

    def test_counts_without_bytes_are_damage(self) -> None:
        endless = file_of(record(("it", array("null"))), (1, long(2**60) + long(0)))
        with pytest.raises(DamagedError, match="count is larger"):
            list(read_records("x", endless))
        with pytest.raises(DamagedError, match="count is larger"):
            list(read_records("x", file_of("null", (2**60, b""))))

    def test_a_record_inside_itself_is_damage(self) -> None:
        schema = record(("it", ["null", "row"]))
        with pytest.raises(DamagedError, match="nested too deeply"):
            list(read_records("x", file_of(schema, (1, b"\x00"))))


def test_rows_before_the_damage_may_come_first() -> None:
    batches = read_avro("x", TestBlocks.DATA[:-40], [ProjectedColumn("it", names=("it",))])
    with pytest.raises(TruncatedError):
        list(batches)
