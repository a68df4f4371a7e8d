from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.hashing import Hashes, HashSet, hash128, hash_order

# The published key and inputs: bytes counting up from zero. The answers are those of OpenSSL too.
KEY = int.from_bytes(bytes(range(16)), "little")
PUBLISHED = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    63: "5150d1772f50834a503e069a973fbd7c",
}


def texts(hashes: Hashes) -> list[str]:
    return [(low.tobytes() + high.tobytes()).hex() for low, high in zip(*hashes, strict=True)]


def words(*pairs: tuple[int, int]) -> Hashes:
    low, high = np.array(pairs, dtype=np.uint64).reshape(-1, 2).T
    return low, high


class TestHash128:
    def test_gives_the_published_answers(self) -> None:
        strings = pa.array([bytes(range(size)).decode() for size in PUBLISHED])
        assert texts(hash128(strings, KEY)) == list(PUBLISHED.values())

    @pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
    def test_does_not_depend_on_how_strings_are_stored(self, type_: pa.DataType) -> None:
        values = [f"s3://bucket/ž{i}" * (i % 5) for i in range(100)]
        expected = texts(hash128(pa.array(values)))
        whole = pa.array(values, type_)
        assert texts(hash128(whole)) == expected
        assert texts(hash128(whole.slice(13, 40))) == expected[13:53]
        chunked = pa.chunked_array([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7)])
        assert texts(hash128(chunked)) == expected

    def test_depends_on_the_salt(self) -> None:
        strings = pa.array(["a", "b"])
        answers = {tuple(texts(hash128(strings, salt))) for salt in (0, 1, 2**64, 2**128 - 1)}
        assert len(answers) == 4

    def test_of_nothing_is_nothing(self) -> None:
        empty = pa.array([], pa.string())
        for strings in (empty, pa.chunked_array([], pa.string()), pa.array(["a"]).slice(1)):
            assert texts(hash128(strings)) == []
        assert len(texts(hash128(pa.array(["", ""])))) == 2

    def test_refuses_nulls_other_types_and_other_salts(self) -> None:
        with pytest.raises(ValueError, match="null"):
            hash128(pa.array(["a", None]))
        with pytest.raises(ValueError, match="not int64"):
            hash128(pa.array([1]))
        with pytest.raises(ValueError, match="128 bits"):
            hash128(pa.array(["a"]), salt=2**128)


class TestHashSet:
    def test_tells_what_is_new(self) -> None:
        seen = HashSet()
        assert seen.add(words((1, 1), (2, 1), (1, 1))).tolist() == [True, True, False]
        assert seen.add(words((2, 1), (3, 1))).tolist() == [False, True]
        assert seen.contains(words((1, 1), (1, 2), (3, 1))).tolist() == [True, False, True]
        assert len(seen) == 3

    def test_of_nothing_has_nothing(self) -> None:
        seen = HashSet()
        assert seen.add(words()).tolist() == []
        assert seen.contains(words((0, 0), (1, 0))).tolist() == [False, False]

    def test_takes_words_of_zero(self) -> None:
        seen = HashSet()
        assert seen.add(words((0, 0), (0, 5), (5, 0), (0, 0))).tolist() == [True, True, True, False]
        assert seen.contains(words((0, 0), (0, 5), (5, 0), (0, 6))).tolist() == [True] * 3 + [False]

    def test_keeps_apart_hashes_that_belong_in_one_place(self) -> None:
        seen = HashSet()
        crowd = words(*((n << 40, n) for n in range(1, 600)))
        assert seen.add(crowd).all()
        assert seen.contains(crowd).all()
        assert not seen.contains(words(*((n << 40, n + 1) for n in range(1, 600)))).any()

    def test_grows_with_what_is_in_it_and_not_with_repetition(self) -> None:
        seen = HashSet()
        few = hash128(pa.array([str(i % 10) for i in range(100_000)]))
        small = seen.nbytes
        assert seen.add(few).sum() == 10
        assert seen.nbytes == small
        many = hash128(pa.array([str(i) for i in range(100_000)]))
        assert seen.add(many).sum() == 100_000 - 10
        assert seen.contains(many).all()
        assert len(seen) == 100_000
        assert 24 * len(seen) <= seen.nbytes <= 48 * len(seen)


class TestHashOrder:
    def test_sorts_by_low_words(self) -> None:
        assert hash_order(words((5, 1), (2**64 - 1, 0), (3, 9))).tolist() == [2, 0, 1]

    def test_sorts_by_high_words_where_the_low_ones_are_equal(self) -> None:
        assert hash_order(words((5, 9), (5, 2), (3, 7), (5, 4))).tolist() == [2, 1, 3, 0]

    def test_brings_equal_hashes_together(self) -> None:
        found = hash_order(words((5, 9), (5, 2), (5, 9), (5, 2))).tolist()
        assert [sorted(found[:2]), sorted(found[2:])] == [[1, 3], [0, 2]]
