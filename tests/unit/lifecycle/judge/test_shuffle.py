"""Packed rows come back as they were, and those of a key together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lakesweep.lifecycle.judge import shuffle
from lakesweep.lifecycle.judge.shuffle import PACKED, pack, unpack

_ROWS = pa.schema([pa.field("key", pa.int64()), pa.field("text", pa.string())])


def _keys(rows: pa.Table) -> npt.NDArray[np.uint64]:
    keys: npt.NDArray[np.uint64] = rows["key"].to_numpy().view(np.uint64)
    return keys


def _batches(count: int, size: int) -> list[pa.RecordBatch]:
    table = pa.table(
        [
            pa.array([number * 7 % 23 - 5 for number in range(count)], pa.int64()),
            pa.array([None if number % 3 == 0 else f"text {number}" for number in range(count)]),
        ],
        schema=_ROWS,
    )
    return list(table.to_batches(max_chunksize=size))


@pytest.mark.parametrize("buckets", [1, 4, 100, 1 << 17])
def test_all_rows_come_back_those_of_a_key_in_one_bucket(
    monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    monkeypatch.setattr(shuffle, "_ROWS_AT_ONCE", 250)
    batches = _batches(1_000, 90)
    packed = list(pack(batches, _keys, buckets))
    assert len(packed) > 1
    assert all(batch.schema == PACKED for batch in packed)
    found = pa.Table.from_batches(unpack(packed), _ROWS)
    assert sorted(map(str, found.to_pylist())) == sorted(
        map(str, pa.Table.from_batches(batches).to_pylist())
    )
    homes: dict[int, set[int]] = {}
    for batch in packed:
        for row in range(batch.num_rows):
            for rows in unpack([batch.slice(row, 1)]):
                for key in rows["key"].to_pylist():
                    homes.setdefault(key, set()).add(batch["bucket"][row].as_py())
    assert all(len(found) == 1 for found in homes.values())
    assert len(set.union(*homes.values())) > min(1, buckets - 1)


def test_nothing_is_packed_of_nothing() -> None:
    assert list(pack([], _keys, 4)) == []
    assert list(pack(_batches(0, 10), _keys, 4)) == []
    assert list(unpack([])) == []
