"""A Bloom filter forgets nothing, however it is cut, salted, built and put together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.hashing import Hashes
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter, BloomShape

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1])
batches = st.lists(st.lists(st.tuples(words, words), max_size=70), max_size=4)
shapes = st.builds(
    BloomShape,
    capacity=st.just(1),
    shards=st.integers(1, 5),
    blocks=st.integers(1, 9),
    functions=st.integers(1, 28),
    salt=st.integers(0, 2**128 - 1),
)


@given(shapes, batches)
def test_what_was_added_anywhere_is_found(
    shape: BloomShape, added: list[list[tuple[int, int]]]
) -> None:
    merged = BloomFilter(shape)
    for batch in added:
        part = BloomFilter(shape)
        part.add(_arrays(batch))
        merged.merge(load_bloom("part", dump_bloom(part)))
    for batch in added:
        assert merged.contains(_arrays(batch)).all()


@given(shapes, st.lists(st.tuples(words, words), max_size=70))
def test_a_hash_lies_in_the_shard_that_it_belongs_to(
    shape: BloomShape, pairs: list[tuple[int, int]]
) -> None:
    low, high = _arrays(pairs)
    numbers = shape.shards_of((low, high))
    assert numbers.tolist() == [(one >> 32) * shape.shards >> 32 for one, _ in pairs]
    for number in range(shape.shards):
        mine = numbers == number
        shard = BloomFilter(shape, range(number, number + 1))
        shard.add((low[mine], high[mine]))
        assert shard.contains((low[mine], high[mine])).all()


def _arrays(pairs: list[tuple[int, int]]) -> Hashes:
    low, high = np.array(pairs, dtype=np.uint64).reshape(-1, 2).T
    return low, high
