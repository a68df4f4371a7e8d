"""Which roots lead to which sources, against a walk over a graph in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.sweep.columns import EDGES
from lakesweep.sweep.mark.root_status import trace

NUMBERS = st.integers(0, 12) | st.just(2**63 - 1)
EDGE_LISTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40)


def walk(root: int, edges: list[tuple[int, int]]) -> set[int]:
    found, ahead = {root}, [root]
    while ahead:
        here = ahead.pop()
        new = {child for parent, child in edges if parent == here} - found
        found |= new
        ahead += new
    return found


@given(st.sets(NUMBERS, max_size=5), EDGE_LISTS, st.integers(1, 40))
def test_every_root_leads_to_what_a_walk_finds(
    roots: set[int], edges: list[tuple[int, int]], cut: int
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for part in (edges[:cut], edges[cut:]):
            rows = [{"parent": parent, "child": child} for parent, child in part]
            yield pa.RecordBatch.from_pylist(rows, schema=EDGES)

    lineage = trace(roots, batches)
    found = list(zip(lineage.roots.tolist(), lineage.sources.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == {(root, source) for root in roots for source in walk(root, edges)}
    assert np.all(np.diff(lineage.sources) >= 0)
    for source in range(13):
        assert sorted(lineage.roots_of(source)) == sorted(
            root for root in roots if source in walk(root, edges)
        )
