"""What keeps folded entries: the keepers of all ranges that hold them."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.lifecycle.judge.occurrences import held_by


def _entries(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    chunks, members = zip(*rows, strict=True)
    columns = [pa.array(chunks, pa.int64()), pa.array(members, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["chunk", "members"])


def test_the_keepers_of_all_places_count() -> None:
    placed = {1: {0: 0b01, 1: 0b10, 9: 0b01, 20: 0b1000}, 2: {0: 0b100}}
    rows = [
        (1, b"\x01\x00"),
        (1, b"\x03\x00"),
        (1, b"\x00\x02"),
        (1, b"\x04\x00"),  # a range that nothing keeps
        (1, b""),
        (2, b"\x01"),
        (3, b"\x01"),  # a chunk that nothing keeps
    ]
    bits, holders = held_by(_entries(rows), placed)
    assert [bits[holder] for holder in holders] == [0b01, 0b11, 0b01, 0, 0, 0b100, 0]


def test_keepers_may_be_more_than_a_word_has_bits() -> None:
    placed = {1: {0: 1 << 100, 1: 1 << 3}}
    bits, holders = held_by(_entries([(1, b"\x03"), (1, b"\x01")]), placed)
    assert [bits[holder] for holder in holders] == [1 << 100 | 1 << 3, 1 << 100]
