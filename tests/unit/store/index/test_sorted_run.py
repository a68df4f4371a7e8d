from __future__ import annotations

import random
import zlib

import pytest

from lakesweep.errors import FormatError
from lakesweep.store.index.block import REMOVED, Block, Stored
from lakesweep.store.index.sorted_run import EMPTY, SortedRun, cut_evenly, cut_full, encode_run


def leaf_of(entries: dict[bytes, Stored], block_size: int = 200) -> SortedRun:
    return EMPTY.merge(entries, block_size, keep_removed=True)


def numbered(count: int) -> dict[bytes, Stored]:
    return {b"key%05d" % i: b"value%d" % i for i in range(count)}


def read_all(data: bytes) -> list[tuple[bytes, Stored]]:
    leaf = SortedRun.parse(data, "the run")
    return list(leaf.entries())


class TestFormat:
    def test_comes_back(self) -> None:
        entries: dict[bytes, Stored] = numbered(500) | {
            b"": b"",
            b"gone": REMOVED,
            b"z": bytes(70_000),
        }
        leaf = leaf_of(entries)
        assert read_all(leaf.data) == sorted(entries.items())
        again = SortedRun.parse(leaf.data, "the run")
        assert (
            (again.count, again.size) == (len(entries), len(leaf.data)) == (leaf.count, leaf.size)
        )
        assert (again.first, again.last) == (b"", b"z")

    def test_has_fixed_bytes(self) -> None:
        data = leaf_of({b"ab": b"12", b"abc": REMOVED, b"b": b""}).data
        block = "01" + "000200" + "020101" + "030001" + "6162" + "63" + "62" + "3132"
        head = f"0101000000{len(block) // 2:02x}00000003000000"
        head += zlib.crc32(bytes.fromhex(block)).to_bytes(4, "little").hex()
        head += zlib.crc32(bytes.fromhex(head)).to_bytes(4, "little").hex()
        assert data.hex() == head + block

    def test_cuts_long_common_beginnings_off(self) -> None:
        entries: dict[bytes, Stored] = {b"x" * 1000 + b"%04d" % i: b"" for i in range(100)}
        assert leaf_of(entries, 10**6).size < 1000 + 100 * 15

    @pytest.mark.parametrize("size", [0, 1, 253, 254, 255, 256, 65_533, 65_534, 65_535, 65_536])
    def test_takes_values_of_any_size(self, size: int) -> None:
        assert read_all(leaf_of({b"k": bytes(size), b"l": REMOVED}).data)[0] == (b"k", bytes(size))


class TestDamage:
    @pytest.fixture
    def data(self) -> bytes:
        return leaf_of(numbered(40) | {b"gone": REMOVED}).data

    def test_of_any_byte_is_an_error(self, data: bytes) -> None:
        for place in range(len(data)):
            damaged = bytearray(data)
            damaged[place] ^= 0x41
            with pytest.raises(FormatError):
                read_all(bytes(damaged))

    def test_by_a_cut_anywhere_is_an_error(self, data: bytes) -> None:
        for size in range(len(data)):
            with pytest.raises(FormatError):
                read_all(data[:size])

    def test_by_bytes_behind_the_end_is_an_error(self, data: bytes) -> None:
        with pytest.raises(FormatError, match="the run: the index run has"):
            read_all(data + b"\x00")

    def test_with_right_checksums_never_reads_beyond_a_block(self) -> None:
        source = random.Random(5)
        block = leaf_of(numbered(8)).blocks[0]
        for _ in range(3000):
            body = bytearray(block.data)
            for _ in range(source.randint(1, 3)):
                body[source.randrange(25)] = source.randrange(256)
            run = encode_run([Block(bytes(body), block.count, zlib.crc32(body))])
            try:
                keys = [key for key, _ in read_all(run)]
            except FormatError:
                continue
            assert keys == sorted(set(keys))

    def test_of_a_newer_version_says_so(self, data: bytes) -> None:
        with pytest.raises(FormatError, match="version 2"):
            read_all(b"\x02" + data[1:])

    def test_in_a_block_that_is_not_needed_is_carried_on_and_found_later(self) -> None:
        data = bytearray(leaf_of(numbered(200)).data)
        data[-1] ^= 1
        leaf = SortedRun.parse(bytes(data), "the run")
        assert leaf.get(b"key00000") == b"value0"
        changed = leaf.merge({b"key00000": b"new"}, 200, keep_removed=False)
        assert changed.get(b"key00000") == b"new"
        with pytest.raises(FormatError, match="checksum"):
            read_all(changed.data)


class TestMerge:
    def test_leaves_blocks_alone_that_it_does_not_touch(self) -> None:
        leaf = leaf_of(numbered(500))
        changed = leaf.merge({b"key00250x": b"new"}, 200, keep_removed=False)
        before = {id(block) for block in leaf.blocks}
        assert sum(id(block) not in before for block in changed.blocks) <= 3
        assert changed.count == 501

    def test_that_changes_nothing_gives_the_run_itself(self) -> None:
        leaf = leaf_of(numbered(10))
        same: dict[bytes, Stored] = {b"key00003": b"value3", b"absent": REMOVED}
        assert leaf.merge(same, 200, keep_removed=False) is leaf

    def test_leaves_no_block_small_for_ever(self) -> None:
        leaf = leaf_of(numbered(1000))
        for key in sorted(numbered(1000))[:-5]:
            leaf = leaf.merge({key: REMOVED}, 200, keep_removed=False)
        assert leaf.count == 5
        assert len(leaf.blocks) <= 2

    def test_of_everything_away_leaves_an_empty_run(self) -> None:
        gone: dict[bytes, Stored] = dict.fromkeys(numbered(100), REMOVED)
        leaf = leaf_of(numbered(100)).merge(gone, 200, keep_removed=False)
        assert leaf.data == EMPTY.data


class TestReading:
    def test_decodes_only_the_blocks_that_it_needs(self) -> None:
        leaf = SortedRun.parse(leaf_of(numbered(1000)).data, "the run")
        assert leaf.get(b"key00500") == b"value500"
        assert next(leaf.entries(b"key00700"))[0] == b"key00700"
        decoded = sum(block._entries is not None for block in leaf.blocks)
        assert decoded == 2

    def test_finds_the_last_entry_that_is_not_above(self) -> None:
        leaf = leaf_of(numbered(100))
        assert leaf.floor(b"key00042x") == (b"key00042", b"value42")
        assert leaf.floor(b"a") is None
        assert EMPTY.floor(b"a") is None


class TestCutting:
    def test_evenly_gives_parts_of_about_the_same_weight(self) -> None:
        assert cut_evenly([10] * 10, 40) == [slice(0, 4), slice(4, 7), slice(7, 10)]
        assert cut_evenly([], 40) == []
        assert cut_evenly([1000, 1], 10) == [slice(0, 1), slice(1, 2)]

    def test_full_leaves_room_only_at_the_end(self) -> None:
        assert cut_full([10] * 10, 40) == [slice(0, 4), slice(4, 8), slice(8, 10)]
        assert cut_full([100, 1, 1], 40) == [slice(0, 1), slice(1, 3)]
