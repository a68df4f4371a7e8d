from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.store.ids.id_set import IdSet

_IDS = st.integers(0, 2**63 - 1) | st.integers(0, 30)


@given(st.lists(st.lists(_IDS, max_size=20), max_size=40))
def test_each_id_is_new_once(batches: list[list[int]]) -> None:
    ids, seen = IdSet(), set[int]()
    for batch in batches:
        assert ids.add(batch).tolist() == sorted(set(batch) - seen)
        seen.update(batch)
    assert len(ids) == len(seen)


def test_an_id_takes_no_more_than_sixteen_bytes() -> None:
    count, batch = 2**18, 2**10
    scattered = np.random.default_rng(1).permutation(count).astype(np.int64)
    ids = IdSet()
    tracemalloc.start()
    for start in range(0, count, batch):
        ids.add(scattered[start : start + batch])
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 8.5 * count
    assert peak < 16.5 * count  # while the two longest runs become one
