"""Folded entries: each once, in the order in which ranges name them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import AddressType
from lakesweep.lifecycle.entries.reader import READ, fold

_NAMESPACE = StorageNamespace("s3://lake/repo")
_WHEN = datetime(2026, 3, 1, tzinfo=UTC)


def _range(*entries: tuple[bytes, str, int]) -> pa.RecordBatch:
    rows = [
        {
            "path": path,
            "address": address,
            "address_type": AddressType.RELATIVE,
            "size_bytes": size_bytes,
            "modified": _WHEN,
        }
        for path, address, size_bytes in entries
    ]
    return pa.RecordBatch.from_pylist(rows, schema=READ)


def test_each_entry_comes_once_with_a_bit_for_each_range() -> None:
    ranges = [
        _range((b"a", "data/1", 10), (b"c", "data/3", 30)),
        _range((b"a", "data/1", 11), (b"b", "data/2", 20), (b"c", "data/4", 40)),
    ]
    found = fold(ranges, _NAMESPACE, 7).select(["path", "address", "members", "size_bytes"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (b"a", "data/1", b"\x03", 11),
        (b"c", "data/3", b"\x01", 30),
        (b"b", "data/2", b"\x02", 20),
        (b"c", "data/4", b"\x02", 40),
    ]


def test_entries_of_one_range_stay_in_the_order_of_their_paths() -> None:
    paths = [f"{number:05}".encode() for number in range(2_000)]
    one = _range(*((path, f"data/{number}", 1) for number, path in enumerate(paths)))
    assert fold([one, one], _NAMESPACE, 7)["path"].to_pylist() == paths
