"""Hashes against a plain reading of the published algorithm, sets of them against Python's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.hashing import HashSet, hash128, hash_names

_MASK = 2**64 - 1


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def _mix(v: list[int], rounds: int) -> None:
    for _ in range(rounds):
        for a, b, turn, far in ((0, 1, 13, 0), (2, 3, 16, None), (0, 3, 21, None), (2, 1, 17, 2)):
            v[a] = (v[a] + v[b]) & _MASK
            v[b] = _rotate(v[b], turn) ^ v[a]
            if far is not None:
                v[far] = _rotate(v[far], 32)


def _reference(data: bytes, salt: int) -> tuple[int, int]:
    key = salt & _MASK, salt >> 64
    words = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(words[i : i + 8], "big") ^ key[i // 8 % 2] for i in range(0, 32, 8)]
    v[1] ^= 0xEE
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        _mix(v, 2)
        v[0] ^= word
    halves = []
    for place, mark in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= mark
        _mix(v, 4)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return halves[0], halves[1]


@given(st.lists(st.text(max_size=300)), st.integers(0, 2**128 - 1), st.integers(0, 5))
def test_hashes_are_those_of_the_reference(values: list[str], salt: int, skip: int) -> None:
    low, high = hash128(pa.array(values, pa.string()).slice(skip), salt)
    expected = [_reference(value.encode(), salt) for value in values[skip:]]
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


@given(st.lists(st.text("ab/\N{SNOWMAN}", max_size=20)), st.integers(0, 3))
def test_hashes_of_names_are_those_of_what_follows_the_last_slash(
    paths: list[str], skip: int
) -> None:
    names = pa.array([path.rpartition("/")[2] for path in paths[skip:]], pa.string())
    found = hash_names(pa.array(paths, pa.string()).slice(skip))
    assert np.array_equal(found, hash128(names))


few_words = st.integers(0, 3) | st.sampled_from([2**63, 2**64 - 1, 1024, 2048])
batches = st.lists(st.lists(st.tuples(few_words, few_words), max_size=40), max_size=8)


@given(batches, st.lists(st.tuples(few_words, few_words)))
def test_a_set_answers_as_pythons_own_does(
    added: list[list[tuple[int, int]]], asked: list[tuple[int, int]]
) -> None:
    oracle: set[tuple[int, int]] = set()
    seen = HashSet()
    for batch in added:
        expected = []
        for pair in map(_neighbour, batch):
            expected.append(pair not in oracle)
            oracle.add(pair)
        assert seen.add(_arrays(batch)).tolist() == expected
    assert len(seen) == len(oracle)
    assert seen.contains(_arrays(asked)).tolist() == [_neighbour(each) in oracle for each in asked]


def _neighbour(pair: tuple[int, int]) -> tuple[int, int]:
    """The set takes the hash of two zeros for the one beside it."""
    return (0, 1) if pair == (0, 0) else pair


def _arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(pairs, dtype=np.uint64).reshape(-1, 2).T
    return low, high
