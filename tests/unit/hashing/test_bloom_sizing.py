from __future__ import annotations

import numpy as np
import pytest

from lakesweep.errors import UsageError
from lakesweep.hashing.bloom_filter import BloomFill, BloomFilter, BloomShape
from lakesweep.hashing.bloom_sizing import (
    DEFAULT_POLICY,
    BloomFit,
    BloomPolicy,
    better_shape,
    bloom_figures,
    check_fill,
    expected_live,
    first_shape,
)


def fill_with(shape: BloomShape, count: int) -> BloomFill:
    words = np.random.default_rng(1).integers(0, 2**64, (2, count), dtype=np.uint64)
    bloom = BloomFilter(shape)
    bloom.add((words[0], words[1]))
    return bloom.fill()


class TestPolicy:
    def test_is_that_of_the_requirement(self) -> None:
        policy = BloomPolicy()
        assert (policy.fpp, policy.acceptable_fpp, policy.multiplier) == (1e-5, 5e-5, 1.1)

    @pytest.mark.parametrize(
        "wrong",
        [{"fpp": 0.0}, {"fpp": 1e-4}, {"fpp": 5e-5}, {"acceptable_fpp": 1.5}, {"multiplier": 1.0}],
    )
    def test_refuses_contradictions(self, wrong: dict[str, float]) -> None:
        with pytest.raises(UsageError):
            BloomPolicy(**wrong)


class TestExpectedLive:
    def test_is_the_high_water_of_earlier_runs_and_a_tenth(self) -> None:
        assert expected_live(1_000_000, None) == 1_100_000

    def test_is_what_manifests_say_on_the_first_run(self) -> None:
        assert expected_live(0, 2_000_000) == 2_200_000

    def test_is_the_larger_where_both_are_known(self) -> None:
        assert expected_live(1_000_000, 3_000_000) == 3_300_000
        assert expected_live(3_000_000, 1_000_000) == 3_300_000

    def test_leaves_room_for_small_lakes_to_grow(self) -> None:
        assert expected_live(0, None) == expected_live(10, 20) == 100_000

    def test_follows_the_policy(self) -> None:
        assert expected_live(1_000_000, None, BloomPolicy(multiplier=2.0)) == 2_000_000


class TestShapes:
    def test_of_a_full_filter_err_as_the_policy_wants(self) -> None:
        fill = fill_with(first_shape(200_000, salt=3), 200_000)
        assert fill.expected_fpp == pytest.approx(DEFAULT_POLICY.fpp, rel=0.05)

    def test_have_the_salt_of_the_run(self) -> None:
        assert first_shape(1, salt=42).salt == 42


class TestCheck:
    def test_accepts_what_was_expected_and_somewhat_more(self) -> None:
        shape = first_shape(100_000, salt=3)
        for count in (0, 100_000, 118_000):
            assert check_fill(fill_with(shape, count), can_rebuild=True) is BloomFit.FITS

    def test_wants_a_larger_filter_above_the_limit(self) -> None:
        fill = fill_with(first_shape(100_000, salt=3), 140_000)
        assert check_fill(fill, can_rebuild=True) is BloomFit.RESIZE

    def test_forbids_deletes_where_no_larger_one_can_be_built(self) -> None:
        fill = fill_with(first_shape(100_000, salt=3), 140_000)
        assert check_fill(fill, can_rebuild=False) is BloomFit.NO_DELETES

    def test_refuses_a_filter_that_reaches_the_limit(self) -> None:
        fill = fill_with(first_shape(100_000, salt=3), 100_000)
        strict = BloomPolicy(fpp=1e-9, acceptable_fpp=fill.expected_fpp)
        assert check_fill(fill, can_rebuild=False, policy=strict) is BloomFit.NO_DELETES

    def test_follows_the_policy(self) -> None:
        fill = fill_with(first_shape(100_000, salt=3), 140_000)
        lenient = BloomPolicy(acceptable_fpp=1e-3)
        assert check_fill(fill, can_rebuild=False, policy=lenient) is BloomFit.FITS


class TestBetterShape:
    def test_holds_what_the_small_one_got(self) -> None:
        small = first_shape(100_000, salt=3)
        better = better_shape(small, fill_with(small, 300_000), rows=500_000)
        assert check_fill(fill_with(better, 300_000), can_rebuild=False) is BloomFit.FITS
        assert better.capacity == pytest.approx(330_000, rel=0.01)
        assert better.salt == small.salt

    def test_goes_by_the_rows_where_the_small_one_is_full(self) -> None:
        tiny = BloomShape(10, 1, 1, 14, 3)
        assert better_shape(tiny, fill_with(tiny, 5000), rows=200_000).capacity == 220_000

    def test_is_larger_whatever_the_estimate_says(self) -> None:
        shape = first_shape(500_000, salt=3)
        assert better_shape(shape, fill_with(shape, 10), rows=10).bits >= shape.bits


class TestFigures:
    def test_say_what_the_filter_was_and_became(self) -> None:
        shape = first_shape(100_000, salt=3)
        figures = bloom_figures(shape, fill_with(shape, 50_000), rebuilt=True)
        assert figures.inserted == pytest.approx(50_000, rel=0.01)
        assert (figures.capacity, figures.bits, figures.functions) == (100_000, shape.bits, 14)
        assert 0 < figures.expected_fpp < 1e-5
        assert figures.rebuilt

    def test_of_a_full_filter_are_finite(self) -> None:
        tiny = BloomShape(10, 1, 1, 14, 3)
        figures = bloom_figures(tiny, fill_with(tiny, 5000))
        assert (figures.inserted, figures.expected_fpp) == (512, 1.0)
