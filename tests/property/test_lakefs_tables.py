"""What is written is read again, whatever it is; what was changed is never taken for it."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.lakefs.ranges.reader import decode_range
from lakesweep.lakefs.ranges.sstable import SSTableType
from tests.lakefs_tables import Entry, Layout, Written, write_table
from tests.random_tests import examples

_ENTRIES = st.builds(
    Entry,
    address=st.text(max_size=60).map(lambda text: "data/" + text),
    seconds=st.integers(0, 4 * 10**9),
    nanos=st.integers(0, 999_999_999),
    size_bytes=st.integers(0, 2**63 - 1),
    checksum=st.text(max_size=40),
    metadata=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=2),
    type=st.sampled_from([0, 1, 2]),
    content_type=st.text(max_size=20),
)
_LAYOUTS = st.builds(
    Layout,
    block_size=st.sampled_from([16, 100, 700, 4096]),
    restart_interval=st.integers(1, 20),
    compress=st.booleans(),
)
_KEYS = st.binary(max_size=12) | st.binary(max_size=3).map(lambda tail: b"common/prefix/" + tail)


@examples(20)
@given(rows=st.dictionaries(_KEYS, _ENTRIES, max_size=60), layout=_LAYOUTS)
def test_what_is_written_is_read_again(rows: dict[bytes, Entry], layout: Layout) -> None:
    ordered = sorted(rows.items())
    values = [(key, entry.value()) for key, entry in ordered]
    table = write_table(values, SSTableType.RANGES, layout=layout)
    found = decode_range("x", table.data, table.id)
    assert found.column("path").to_pylist() == [key for key, _ in ordered]
    assert found.column("address").to_pylist() == [entry.address for _, entry in ordered]
    assert found.column("checksum").to_pylist() == [entry.checksum for _, entry in ordered]
    assert found.column("size_bytes").to_pylist() == [entry.size_bytes for _, entry in ordered]
    micros = found.column("modified").cast(pa.int64()).to_pylist()
    assert micros == [e.seconds * 10**6 + e.nanos // 1000 for _, e in ordered]


@cache
def whole() -> tuple[Written, pa.RecordBatch]:
    layout = Layout(block_size=200)
    rows = [(b"folder/k%03d" % i, Entry(f"data/s/{i}", i, size_bytes=i).value()) for i in range(60)]
    table = write_table(rows, SSTableType.RANGES, layout=layout)
    return table, decode_range("x", table.data, None)


@examples(60)
@given(
    place=st.integers(0, 2**20), change=st.integers(1, 255), cut=st.integers(0, 2**14) | st.none()
)
def test_a_changed_file_is_refused_or_says_the_same(
    place: int, change: int, cut: int | None
) -> None:
    table, expected = whole()
    data = bytearray(table.data)
    data[place % len(data)] ^= change
    data = data if cut is None else data[: cut % len(data)]
    try:
        found = decode_range("x", bytes(data), None)
    except FormatError:
        return
    assert found.equals(expected)


@examples(40)
@given(data=st.data())
def test_no_block_with_a_good_checksum_breaks_the_reader(data: st.DataObject) -> None:
    """Records that no writer would write, sealed as if one had."""
    rows = data.draw(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=30)), max_size=9))
    table = write_table(rows, SSTableType.RANGES)
    with suppress(FormatError):
        decode_range("x", table.data, None)
