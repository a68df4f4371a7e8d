"""Rows of objects: whatever is written comes back, and nothing else is taken for it."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import DamagedRowError
from lakesweep.store.backends.rows import EVERY_ID, MAX_VALUE_BYTES, split_span
from lakesweep.store.objects import row_format

_IDS = st.integers(EVERY_ID.first, EVERY_ID.last)
_NEAR_LIMITS = st.builds(
    lambda times, more: max(0, times * row_format.MAX_PIECE_BYTES + more),
    st.integers(0, 3),
    st.integers(-20, 20),
)


@given(_NEAR_LIMITS, _IDS)
def test_parts_make_up_the_payload_and_fit_in_rows(size: int, generation: int) -> None:
    payload = (b"0123456789abc" * (size // 13 + 1))[:size]
    rows = row_format.encode_parts(payload, generation)
    assert all(len(row) <= MAX_VALUE_BYTES for row in rows)
    parsed = [row_format.parse_frame(row) for row in rows]
    assert b"".join(frame.piece for frame in parsed) == payload
    assert {(frame.parts, frame.generation) for frame in parsed} <= {(len(rows), generation)}
    assert [frame.part for frame in parsed] == list(range(len(rows)))


@given(st.binary(max_size=200), _IDS, st.data())
def test_no_flipped_bit_goes_unseen(payload: bytes, generation: int, data: st.DataObject) -> None:
    rows = [row_format.encode_whole(payload), *row_format.encode_parts(payload, generation)]
    row = bytearray(data.draw(st.sampled_from(rows)))
    place = data.draw(st.integers(0, len(row) - 1))
    row[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedRowError):
        row_format.parse_frame(bytes(row))


@given(st.binary(max_size=300), st.integers(0, 3))
def test_no_bytes_at_all_break_the_parser(value: bytes, version: int) -> None:
    sealed = struct.pack(">BI", version, zlib.crc32(value, version)) + value
    for row in (value, sealed):
        with suppress(DamagedRowError):
            row_format.parse_frame(row)


@given(_IDS, _IDS, st.integers(1, 50))
def test_splits_cover_every_id_once(one: int, other: int, count: int) -> None:
    spans = split_span(min(one, other), max(one, other), count)
    assert 1 <= len(spans) <= count
    assert spans[0].first == EVERY_ID.first
    assert spans[-1].last == EVERY_ID.last
    for left, right in pairwise(spans):
        assert left.last + 1 == right.first
        assert left.first <= left.last
