from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError, FormatError, TruncatedError
from lakesweep.lakefs.columns import ENTRIES
from lakesweep.lakefs.ranges import reader
from lakesweep.lakefs.ranges.checksums import TABLES, checksum_by_tables, masked_checksum
from lakesweep.lakefs.ranges.reader import decode_metarange, decode_range
from lakesweep.lakefs.ranges.sstable import FOOTER_BYTES, MAGIC, SSTable, SSTableType, read_sstable
from tests.lakefs import RealRepositories
from tests.lakefs_tables import (
    Entry,
    Layout,
    RangeOf,
    envelope,
    footer,
    sealed,
    uvarint,
    write_table,
)

_ENTRY = Entry("data/s/x", 1_700_000_000, size_bytes=3, checksum="abc").value()
_OBJECT_COLUMNS = {
    "address": "address",
    "checksum": "e_tag",
    "size_bytes": "size",
}


def read_any(path: Path) -> SSTable:
    data = path.read_bytes()
    kind = SSTableType.METARANGES if b"typemetaranges" in data else SSTableType.RANGES
    return read_sstable(str(path), data, kind, path.name)


def records(table: SSTable) -> list[tuple[bytes, bytes]]:
    identities = table.gather(table.identities, pa.binary()).to_pylist()
    data = table.gather(table.data, pa.binary()).to_pylist()
    values = (envelope(*parts) for parts in zip(identities, data, strict=True))
    return list(zip(table.keys.to_pylist(), values, strict=True))


def test_every_file_of_the_server_has_its_id_and_is_written_again_byte_for_byte(
    lakefs_repositories: RealRepositories,
) -> None:
    paths = [path for each in lakefs_repositories for path in each.tables()]
    assert len(paths) == 299
    for path in paths:
        table = read_any(path)
        named = {k: v for k, v in table.properties.named.items() if k != "type"}
        again = write_table(records(table), table.properties.type, named=named)
        assert again.id == path.name
        assert again.data == path.read_bytes()


def test_the_servers_own_reader_finds_the_same(lakefs_repositories: RealRepositories) -> None:
    for decoded in lakefs_repositories.decoded():
        table = read_any(lakefs_repositories.folder / decoded["path"])
        expected = [
            (bytes.fromhex(entry["key_hex"]), bytes.fromhex(entry["value_hex"]))
            for entry in decoded["entries"]
        ]
        assert records(table) == expected


def test_entries_are_as_the_servers_own_reader_decodes_them(
    lakefs_repositories: RealRepositories,
) -> None:
    checked = 0
    for decoded in lakefs_repositories.decoded():
        if not decoded["entries"] or "entry" not in decoded["entries"][0]:
            continue
        path = lakefs_repositories.folder / decoded["path"]
        found = decode_range(str(path), path.read_bytes(), path.name).to_pylist()
        for row, expected in zip(found, decoded["entries"], strict=True):
            entry = expected["entry"]
            assert {k: row[k] for k in _OBJECT_COLUMNS} == {
                k: entry[name] for k, name in _OBJECT_COLUMNS.items()
            }
            assert row["address_type"] == entry["address_type"].lower()
            moment = row["modified"].timestamp() * 10**6
            nanos = entry["last_modified_seconds"] * 10**9 + entry["last_modified_nanos"]
            assert round(moment) == nanos // 1000
            checked += 1
    assert checked > 1000


def test_metaranges_are_as_the_servers_own_reader_decodes_them(
    lakefs_repositories: RealRepositories,
) -> None:
    for decoded in lakefs_repositories.decoded():
        if decoded["user_properties"]["type"] != "metaranges":
            continue
        path = lakefs_repositories.folder / decoded["path"]
        found = decode_metarange(str(path), path.read_bytes(), path.name).to_pylist()
        told = [entry["range"] for entry in decoded["entries"]]
        assert [row["count"] for row in found] == [each["count"] for each in told]
        assert [row["estimated_size"] for row in found] == [each["estimated_size"] for each in told]
        assert [row["max_key"].hex() for row in found] == [each["max_key_hex"] for each in told]
        assert [row["min_key"].hex() for row in found] == [each["min_key_hex"] for each in told]


def test_an_index_of_two_levels_is_read() -> None:
    rows = [(b"a/long/way/to/the/key/%05d" % i, _ENTRY) for i in range(5000)]
    table = write_table(rows, SSTableType.RANGES)
    assert b"rocksdb.index.partitions" not in write_table(rows[:9], SSTableType.RANGES).data
    assert read_sstable("x", table.data, SSTableType.RANGES, table.id).properties.two_level
    assert decode_range("x", table.data, table.id).column("path").to_pylist() == [
        key for key, _ in rows
    ]


def test_entries_of_every_age() -> None:
    rows = {
        b"": Entry("data/a", type=1),
        b"1": Entry("s3://b/k", type=0),
        b"2": Entry("LOCAL://b/k", type=0),
        b"3": Entry("b0c968736d8f42a2b1c6284835f08226", type=0),
        b"4": Entry("gs://b/k", 253_402_300_800, 5, type=2),
        b"5\xff": Entry("s3:/k", -62_135_596_801, type=0, metadata={"k": "v"}, content_type="t"),
    }
    table = write_table([(key, entry.value()) for key, entry in rows.items()], SSTableType.RANGES)
    found = decode_range("x", table.data, table.id)
    assert found.column("path").to_pylist() == list(rows)
    types = ["relative", "full", "full", "relative", "full", "relative"]
    assert found.column("address_type").to_pylist() == types
    assert [moment.year for moment in found.column("modified").to_pylist()] == [
        *[1970] * 4,
        9999,
        1,
    ]


def test_an_entry_without_a_time_has_none() -> None:
    bare = envelope(bytes(32), b"\x0a\x01x\x30\x01")
    table = write_table([(b"k", bare)], SSTableType.RANGES)
    row = decode_range("x", table.data, table.id).to_pylist()[0]
    assert (row["address"], row["modified"], row["size_bytes"]) == ("x", None, 0)


def test_fields_of_the_future_are_skipped() -> None:
    extra = b"\x78\x01" + b"\x7a\x02ab" + b"\x79" + bytes(8) + b"\x7d" + bytes(4)
    table = write_table([(b"k", envelope(bytes(32), extra + b"\x0a\x01x"))], SSTableType.RANGES)
    assert decode_range("x", table.data, table.id).column("address").to_pylist() == ["x"]


class TestDamage:
    def refused(self, data: bytes, reason: str, error: type[FormatError] = DamagedError) -> None:
        with pytest.raises(error, match=reason) as raised:
            decode_range("s3://b/_lakefs/f", data, None)
        assert raised.type is error
        assert raised.value.path == "s3://b/_lakefs/f"

    def whole(self, rows: int = 1) -> bytes:
        return write_table([(b"%05d" % i, _ENTRY) for i in range(rows)], SSTableType.RANGES).data

    def test_an_empty_file(self) -> None:
        self.refused(b"", "empty", TruncatedError)

    def test_a_file_that_ends_early(self) -> None:
        self.refused(self.whole()[:-3], "does not end as a table file does")

    def test_another_magic(self) -> None:
        self.refused(self.whole()[:-8] + b"notmagic", "does not end")

    def test_only_a_magic(self) -> None:
        self.refused(b"abc" + MAGIC, "shorter than its own footer", TruncatedError)

    @pytest.mark.parametrize(("checksum", "name"), [(2, "xxHash"), (3, "xxHash64")])
    def test_another_checksum(self, checksum: int, name: str) -> None:
        end = bytearray(self.whole()[-FOOTER_BYTES:])
        end[0] = checksum
        self.refused(self.whole()[:-FOOTER_BYTES] + end, f"has {name} instead", FormatError)

    def test_another_version(self) -> None:
        data = self.whole()[:-12] + struct.pack("<I", 5) + MAGIC
        self.refused(data, "version 5", FormatError)

    @pytest.mark.parametrize(
        ("magic", "name"), [("57fb808b247547db", "LevelDB"), ("f09faab3f09faab3", "Pebble")]
    )
    def test_another_format(self, magic: str, name: str) -> None:
        self.refused(self.whole()[:-8] + bytes.fromhex(magic), name, FormatError)

    def test_another_codec(self) -> None:
        block = sealed(bytes(8) + b"\x07")
        data = block + footer(b"\x00\x08", b"\x00\x08")
        self.refused(data, "codec 7 .Zstandard.")

    def test_bytes_that_changed(self) -> None:
        data = bytearray(self.whole())
        data[5] ^= 1
        self.refused(bytes(data), "the block at byte 0 has another checksum")

    def test_a_file_of_other_records(self) -> None:
        metarange = write_table([], SSTableType.METARANGES)
        self.refused(metarange.data, "it holds metaranges, not ranges", FormatError)
        commits = write_table([], SSTableType.RANGES, named={"entity": b"commit"})
        self.refused(commits.data, "commit records")

    def test_a_file_of_another_id(self) -> None:
        with pytest.raises(DamagedError, match="has the id"):
            decode_range("x", self.whole(), "0" * 64)

    def test_no_type(self) -> None:
        data = write_table([], SSTableType.RANGES, properties={"type": b"other"}).data
        self.refused(data, "properties cannot be read")

    @pytest.mark.parametrize("name", ["count", "rocksdb.num.entries", "rocksdb.raw.key.size"])
    def test_counts_that_are_wrong(self, name: str) -> None:
        wrong = {name: b"3" if name == "count" else b"\x03"}
        data = write_table([(b"k", _ENTRY)], SSTableType.RANGES, properties=wrong).data
        self.refused(data, "records")

    @pytest.mark.parametrize("number", [1_000, 2**31 - 2, 2**40, 2**64 - 1])
    @pytest.mark.parametrize("name", ["num.entries", "raw.key.size", "raw.value.size"])
    def test_counts_that_no_memory_has_room_for(self, name: str, number: int) -> None:
        wrong = {f"rocksdb.{name}": uvarint(number)}
        count = {"count": b"%d" % number} if name == "num.entries" else {}
        data = write_table([(b"k", _ENTRY)], SSTableType.RANGES, properties=wrong | count).data
        self.refused(
            data,
            "records" if name == "raw.key.size" and number == 1_000 else "larger than any range",
        )

    def test_a_wrong_number_of_blocks(self) -> None:
        wrong = {"rocksdb.num.data.blocks": b"\x02"}
        data = write_table([(b"k", _ENTRY)], SSTableType.RANGES, properties=wrong).data
        self.refused(data, "its index has 1 blocks")

    def test_keys_out_of_order(self) -> None:
        data = write_table([(b"b", _ENTRY), (b"a", _ENTRY)], SSTableType.RANGES).data
        self.refused(data, "not in ascending order")
        data = write_table([(b"b", _ENTRY), (b"b", _ENTRY)], SSTableType.RANGES).data
        self.refused(data, "not in ascending order")

    def test_an_address_of_an_unknown_type(self) -> None:
        data = write_table([(b"a", Entry("x", type=3).value())], SSTableType.RANGES).data
        self.refused(data, "unknown type")

    def test_a_size_of_more_than_63_bits(self) -> None:
        data = write_table(
            [(b"k", Entry("a", size_bytes=-(2**63)).value())], SSTableType.RANGES
        ).data
        self.refused(data, "more than 63 bits")

    def test_an_address_that_is_no_text(self) -> None:
        value = envelope(bytes(32), b"\x0a\x01\xff")
        self.refused(write_table([(b"a", value)], SSTableType.RANGES).data, "not UTF-8")

    @pytest.mark.parametrize(
        "value", [b"", b"\x40abc", b"\x02a\x08b", b"\x01a\x00", b"\x80" * 11, b"\x00"]
    )
    def test_a_value_that_is_no_envelope(self, value: bytes) -> None:
        data = write_table([(b"a", value)], SSTableType.RANGES).data
        self.refused(data, "not a pair of identity and data")

    @pytest.mark.parametrize(
        "record", [b"\x0a\x05x", b"\x00\x00", b"\x0b", b"\x12\x02\x08", b"\x18", b"\x7d\x00"]
    )
    def test_a_record_that_is_no_protobuf(self, record: bytes) -> None:
        value = envelope(bytes(32), record)
        self.refused(write_table([(b"a", value)], SSTableType.RANGES).data, "protobuf")

    def test_ranges_that_overlap(self) -> None:
        ranges = [RangeOf("a" * 64, b"a", b"m", 9, 2), RangeOf("b" * 64, b"c", b"z", 9, 2)]
        table = write_table([(r.max_key, r.value()) for r in ranges], SSTableType.METARANGES)
        with pytest.raises(DamagedError, match="overlap"):
            decode_metarange("x", table.data, table.id)

    def test_a_range_that_ends_elsewhere(self) -> None:
        table = write_table(
            [(b"m", RangeOf("a" * 64, b"a", b"n", 9, 2).value())], SSTableType.METARANGES
        )
        with pytest.raises(DamagedError, match="where they say"):
            decode_metarange("x", table.data, table.id)

    def test_a_range_whose_id_is_a_way_out(self) -> None:
        away = RangeOf("../" * 21 + "a", b"a", b"n", 9, 2)
        table = write_table([(b"n", away.value())], SSTableType.METARANGES)
        with pytest.raises(DamagedError, match="invalid id"):
            decode_metarange("x", table.data, table.id)


def test_small_blocks_and_no_codec_are_read() -> None:
    rows = [(b"k%04d" % i, _ENTRY) for i in range(300)]
    layout = Layout(block_size=64, restart_interval=3, compress=False)
    table = write_table(rows, SSTableType.RANGES, layout=layout)
    assert decode_range("x", table.data, table.id).num_rows == 300


@pytest.mark.parametrize("size", [*range(20), 4096, 4099])
def test_checksums_are_the_same_with_and_without_an_instruction_for_them(size: int) -> None:
    data = np.frombuffer(random.Random(size).randbytes(size), np.uint8)
    crc = checksum_by_tables(data, TABLES)
    masked = ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_checksum(data, 0, size, TABLES) == masked


def test_a_damaged_part_of_an_index_of_two_levels_is_found() -> None:
    rows = [(b"a/long/way/to/the/key/%05d" % i, _ENTRY) for i in range(5000)]
    table = write_table(rows, SSTableType.RANGES)
    footer_at = len(table.data) - FOOTER_BYTES
    ends = [i for i in range(footer_at - 6000, footer_at) if table.data[i : i + 7] == b"the/key"]
    data = bytearray(table.data)
    data[ends[0]] ^= 1
    with pytest.raises(DamagedError, match="another checksum"):
        read_sstable("x", bytes(data), SSTableType.RANGES, table.id)


def test_what_is_not_asked_for_is_not_made() -> None:
    table = write_table([(b"a", _ENTRY)], SSTableType.RANGES)
    some = pa.schema([ENTRIES.field(name) for name in ("address", "size_bytes")])
    found = decode_range("x", table.data, table.id, some)
    assert found.equals(decode_range("x", table.data, table.id).select(some.names))


@pytest.mark.parametrize("group_bytes", [1, 1_000])
def test_a_few_blocks_at_a_time_say_what_all_together_say(
    monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    rows = [(b"k%04d" % i, Entry(f"data/{i}", i, size_bytes=i).value()) for i in range(300)]
    table = write_table(rows, SSTableType.RANGES, layout=Layout(block_size=200))
    whole = decode_range("x", table.data, table.id)
    monkeypatch.setattr(reader, "_GROUP_BYTES", group_bytes)
    assert decode_range("x", table.data, table.id).equals(whole)
    assert whole["address"].to_pylist() == [f"data/{i}" for i in range(300)]
    with pytest.raises(DamagedError, match="has the id"):
        decode_range("x", table.data, "0" * 64)
