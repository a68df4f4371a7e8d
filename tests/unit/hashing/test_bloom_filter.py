from __future__ import annotations

import hashlib
import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.errors import DamagedError
from lakesweep.hashing import Hashes, hash128
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import (
    BloomFilter,
    BloomShape,
    fit,
    fpp_of,
    shape_for,
    total_fill,
)

GOLDEN = Path(__file__).parents[2] / "data" / "bloom-1.bin"


def hashes(count: int, seed: int = 0) -> Hashes:
    words = np.random.default_rng(seed).integers(0, 2**64, (2, count), dtype=np.uint64)
    return words[0], words[1]


def filled(shape: BloomShape, keys: Hashes) -> BloomFilter:
    bloom = BloomFilter(shape)
    bloom.add(keys)
    return bloom


def some_of(keys: Hashes, chosen: np.ndarray) -> Hashes:
    return keys[0][chosen], keys[1][chosen]


def small_shape(*, shards: int = 1, salt: int = 7) -> BloomShape:
    return BloomShape(1000, shards, 64, 14, salt)


def golden_filter() -> BloomFilter:
    names = pa.array([f"s3://lake/t/data/{number}.parquet" for number in range(40)])
    return filled(BloomShape(40, 2, 3, 14, 0x0123456789ABCDEF_FEDCBA9876543210), hash128(names))


class TestShape:
    def test_is_as_large_as_the_rate_asks_for(self) -> None:
        shape = shape_for(1_000_000, 1e-5, salt=1)
        assert shape.functions == 14
        assert shape.bits / 1_000_000 == pytest.approx(29.67, rel=1e-3)

    def test_has_no_shard_above_256_mb(self) -> None:
        shape = shape_for(1_000_000_000, 1e-5, salt=1)
        assert shape.shards == 14
        assert shape.shard_bytes <= 256 * 1024 * 1024
        assert shape.bits > 2**34

    def test_has_a_block_even_for_nothing(self) -> None:
        assert shape_for(0, 1e-5, salt=1).blocks == 1

    def test_refuses_what_is_no_shape(self) -> None:
        for shards, blocks, functions, salt in (
            (0, 1, 14, 0), (1, 0, 14, 0), (1, 2**22 + 1, 14, 0),
            (1, 1, 0, 0), (1, 1, 29, 0), (1, 1, 14, -1), (1, 1, 14, 2**128),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=r"filter has|salt has"):
                BloomShape(1, shards, blocks, functions, salt)

    @pytest.mark.parametrize("fpp", [0.0, 1e-10, 0.02, 1.0])
    def test_refuses_rates_that_are_not_modelled(self, fpp: float) -> None:
        with pytest.raises(ValueError, match="between"):
            shape_for(1000, fpp, salt=0)

    def test_spreads_hashes_over_its_shards_by_their_low_words(self) -> None:
        shape = small_shape(shards=5)
        low = np.array([0, 2**64 // 5, 2**64 // 5 + 2**33, 2**64 - 1], dtype=np.uint64)
        assert shape.shards_of((low, low)).tolist() == [0, 0, 1, 4]


class TestModel:
    @pytest.mark.parametrize("fpp", [1e-2, 1e-3, 5e-5, 1e-5, 1e-7])
    def test_fits_the_rate_that_it_was_asked_for(self, fpp: float) -> None:
        keys_per_block, functions = fit(fpp)
        assert fpp_of(keys_per_block, functions) == pytest.approx(fpp, rel=1e-6)

    def test_of_an_empty_block_is_never(self) -> None:
        assert fpp_of(0.0, 14) == 0.0

    def test_of_more_than_it_can_tell_is_always(self) -> None:
        assert fpp_of(10_000.0, 14) == pytest.approx(1.0)


class TestFilter:
    def test_knows_all_that_was_added(self) -> None:
        keys = hashes(10_000)
        assert filled(shape_for(10_000, 1e-5, 3, shard_bytes=4096), keys).contains(keys).all()

    def test_of_nothing_knows_nothing(self) -> None:
        bloom = BloomFilter(small_shape())
        assert not bloom.contains(hashes(10_000)).any()
        assert bloom.contains(hashes(0)).tolist() == []

    def test_errs_as_often_as_it_says(self) -> None:
        count = 100_000
        bloom = filled(shape_for(count, 1e-3, salt=5), hashes(count))
        strangers = 2_000_000
        seen = int(bloom.contains(hashes(strangers, seed=1)).sum())
        expected = bloom.fill().expected_fpp * strangers
        assert abs(seen - expected) < 5 * expected**0.5
        assert bloom.fill().expected_fpp == pytest.approx(1e-3, rel=0.05)

    def test_says_so_when_it_is_too_full(self) -> None:
        count = 100_000
        bloom = filled(shape_for(count // 2, 1e-5, salt=5), hashes(count))
        assert bloom.fill().expected_fpp == pytest.approx(fpp_of(2 * fit(1e-5)[0], 14), rel=0.05)

    def test_counts_what_is_in_it_once(self) -> None:
        keys = hashes(50_000)
        bloom = filled(shape_for(50_000, 1e-5, salt=5), keys)
        bloom.add(keys)
        assert bloom.fill().distinct == pytest.approx(50_000, rel=0.005)

    def test_of_nothing_counts_nothing(self) -> None:
        fill = BloomFilter(small_shape()).fill()
        assert (fill.distinct, fill.expected_fpp) == (0.0, 0.0)

    def test_that_is_full_says_that_it_is_useless(self) -> None:
        fill = filled(BloomShape(1, 1, 1, 14, 0), hashes(1000)).fill()
        assert (fill.distinct, fill.expected_fpp) == (float("inf"), 1.0)

    def test_takes_other_strangers_for_known_with_another_salt(self) -> None:
        keys, strangers = hashes(2000), hashes(100_000, seed=1)
        one = filled(small_shape(salt=1), keys).contains(strangers)
        two = filled(small_shape(salt=2), keys).contains(strangers)
        assert one.any()
        assert two.any()
        assert (one & two).sum() < min(one.sum(), two.sum()) / 2

    def test_depends_on_both_words_of_the_salt(self) -> None:
        words = [filled(small_shape(salt=salt), hashes(9)).words for salt in (0, 1, 2**64)]
        assert len({each.tobytes() for each in words}) == 3

    def test_takes_arrays_with_strides(self) -> None:
        low, high = hashes(100)
        bloom = filled(small_shape(), (low[::2], high[::2]))
        assert bloom.contains((low[::2], high[::2])).all()


class TestMerging:
    def test_of_parts_equals_a_filter_of_all(self) -> None:
        keys = hashes(3000)
        even = np.arange(3000) % 2 == 0
        merged = filled(small_shape(), some_of(keys, even))
        merged.merge(filled(small_shape(), some_of(keys, ~even)))
        assert merged.words.tobytes() == filled(small_shape(), keys).words.tobytes()

    def test_refuses_filters_of_another_shape_salt_or_shard(self) -> None:
        bloom = BloomFilter(small_shape(shards=2), range(1))
        for other in (
            BloomFilter(small_shape(shards=3), range(1)),
            BloomFilter(small_shape(shards=2, salt=8), range(1)),
            BloomFilter(small_shape(shards=2), range(1, 2)),
        ):
            with pytest.raises(ValueError, match="merged"):
                bloom.merge(other)


class TestShards:
    def test_together_hold_what_the_whole_holds(self) -> None:
        shape, keys = small_shape(shards=3), hashes(3000)
        whole = filled(shape, keys)
        shards = [BloomFilter(shape, range(number, number + 1)) for number in range(3)]
        for number, shard in enumerate(shards):
            shard.add(some_of(keys, shape.shards_of(keys) == number))
        assert b"".join(shard.words.tobytes() for shard in shards) == whole.words.tobytes()
        fill = total_fill(shard.fill() for shard in shards)
        assert fill.expected_fpp == whole.fill().expected_fpp

    def test_refuse_the_hashes_of_others(self) -> None:
        shape, keys = small_shape(shards=2), hashes(100)
        shard = BloomFilter(shape, range(1, 2))
        with pytest.raises(ValueError, match="none of the shards"):
            shard.add(keys)
        with pytest.raises(ValueError, match="none of the shards"):
            shard.contains(keys)

    @pytest.mark.parametrize("shards", [range(0), range(1, 3), range(0, 2, 2), range(-1, 1)])
    def test_are_shards_of_the_filter(self, shards: range) -> None:
        with pytest.raises(ValueError, match="not adjacent shards"):
            BloomFilter(small_shape(shards=2), shards)


class TestFile:
    def test_is_what_it_always_was(self) -> None:
        assert dump_bloom(golden_filter()) == GOLDEN.read_bytes()

    def test_gives_the_filter_back(self) -> None:
        bloom = load_bloom("it", GOLDEN.read_bytes())
        assert (bloom.shape, bloom.shards) == (golden_filter().shape, range(2))
        assert bloom.words.tobytes() == golden_filter().words.tobytes()

    def test_can_hold_one_shard(self) -> None:
        shape = small_shape(shards=3)
        shard = BloomFilter(shape, range(2, 3))
        keys = hashes(100)
        mine = some_of(keys, shape.shards_of(keys) == 2)
        shard.add(mine)
        loaded = load_bloom("it", dump_bloom(shard))
        assert loaded.shards == range(2, 3)
        assert loaded.contains(mine).all()

    def test_can_be_mapped(self) -> None:
        with GOLDEN.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        bloom = load_bloom("it", memoryview(mapped))
        assert np.shares_memory(bloom.words, np.frombuffer(mapped, dtype=np.uint8))

    def test_can_be_merged_into_another_but_not_changed(self) -> None:
        loaded = load_bloom("it", GOLDEN.read_bytes())
        bloom = BloomFilter(loaded.shape)
        bloom.merge(loaded)
        assert bloom.words.tobytes() == loaded.words.tobytes()
        with pytest.raises(ValueError, match="read-only"):
            loaded.add(hashes(1))
        with pytest.raises(ValueError, match="read-only"):
            loaded.merge(bloom)

    def test_that_is_damaged_anywhere_is_refused(self) -> None:
        data = GOLDEN.read_bytes()
        for place in range(0, len(data), 7):
            damaged = bytearray(data)
            damaged[place] ^= 1
            with pytest.raises(DamagedError):
                load_bloom("it", bytes(damaged))

    def test_that_is_cut_off_is_refused(self) -> None:
        data = GOLDEN.read_bytes()
        for size in range(0, len(data), 11):
            with pytest.raises(DamagedError):
                load_bloom("it", data[:size])

    def test_of_another_version_is_refused(self) -> None:
        data = bytearray(GOLDEN.read_bytes())
        data[7] = 2
        with pytest.raises(DamagedError, match="version 2"):
            load_bloom("it", bytes(data))

    def test_whose_header_lies_about_its_bits_is_refused(self) -> None:
        body = GOLDEN.read_bytes()[:-32].replace(b'"blocks":3', b'"blocks":4')
        with pytest.raises(DamagedError, match="words"):
            load_bloom("it", body + hashlib.sha256(body).digest())
