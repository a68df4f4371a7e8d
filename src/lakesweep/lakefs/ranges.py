"""Ranges and metaranges as rows: the objects of the one, the ranges of the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.lakefs.blocks import Bytes, Numbers, check
from lakesweep.lakefs.columns import ENTRIES, RANGES, AddressType
from lakesweep.lakefs.properties import TableType
from lakesweep.lakefs.table import Table, read_table

#: What an address begins with that is complete, where its entry does not say of which type it is.
_FULL = r"^(?i:s3|mem|local|gs|https?)://"
_BY_PREFIX, _RELATIVE = 0, 1


def decode_range(
    path: str, data: bytes, range_id: str | None, schema: pa.Schema = ENTRIES
) -> pa.RecordBatch:
    """The objects of a range, as rows of ENTRIES. With its id, that the file is its own.

    With `schema` only some of the columns are made: few need identities and checksums.
    """
    table = read_table(path, data, TableType.RANGES, range_id)
    if table.properties.entity:
        raise DamagedError(path, f"it holds {table.properties.entity} records, not objects")
    return _entries(table, schema)


def _entries(table: Table, schema: pa.Schema) -> pa.RecordBatch:
    from lakesweep.lakefs.walk import decode_entries, microseconds

    rows = len(table.keys)
    addresses, checksums = np.empty((2, rows, 2), np.int64)
    numbers, has_time = np.empty((4, rows), np.int64), np.empty(rows, np.uint8)
    state = decode_entries(table.raw, table.data, addresses, checksums, numbers, has_time)
    check(table.path, state)
    moments = np.empty(rows, np.int64)
    microseconds(numbers, moments)
    texts = table.gather(addresses, pa.string())
    columns: dict[str, Callable[[], pa.Array]] = {
        "path": lambda: table.keys,
        "address": lambda: texts,
        "address_type": lambda: _address_types(texts, numbers[3]),
        "size_bytes": lambda: pa.array(numbers[0]),
        "checksum": lambda: table.gather(checksums, pa.string()),
        "modified": lambda: _times(moments, has_time),
        "identity": lambda: table.gather(table.identities, pa.binary()),
    }
    return pa.record_batch([columns[name]() for name in schema.names], schema=schema)


def _times(moments: Numbers, has_time: Bytes) -> pa.Array:
    """Moments in microseconds, as a column; null where there is none."""
    kind = ENTRIES.field("modified").type
    if has_time.all():
        return pa.Array.from_buffers(kind, len(moments), [None, pa.py_buffer(moments)])
    return pa.array(moments, mask=has_time == 0).cast(kind)


def _address_types(
    addresses: pa.Array, stored: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> pa.Array:
    is_relative = stored == _RELATIVE
    if (stored == _BY_PREFIX).any():
        full = pc.match_substring_regex(addresses, _FULL).to_numpy(zero_copy_only=False)
        is_relative |= (stored == _BY_PREFIX) & ~full
    names = pa.array([AddressType.FULL, AddressType.RELATIVE], pa.string())
    return names.take(pa.array(is_relative.astype(np.int8)))


def decode_metarange(path: str, data: bytes, metarange_id: str | None) -> pa.RecordBatch:
    """The ranges of a metarange, as rows of RANGES, which do not overlap."""
    from lakesweep.lakefs.walk import decode_ranges

    table = read_table(path, data, TableType.METARANGES, metarange_id)
    rows = len(table.keys)
    min_keys, max_keys = np.empty((2, rows, 2), np.int64)
    numbers = np.empty((rows, 2), np.int64)
    check(path, decode_ranges(table.raw, table.data, min_keys, max_keys, numbers))
    columns = [
        table.gather(table.identities, pa.string()),
        table.gather(min_keys, pa.binary()),
        table.gather(max_keys, pa.binary()),
        pa.array(np.ascontiguousarray(numbers[:, 1])),
        pa.array(np.ascontiguousarray(numbers[:, 0])),
    ]
    found = pa.record_batch(columns, schema=RANGES)
    _check_ranges(path, table.keys, found)
    return found


def _check_ranges(path: str, keys: pa.Array, ranges: pa.RecordBatch) -> None:
    """Ids are names of files, and each range ends where it says, before the next begins."""
    ids, begins, ends = (
        ranges.column("range_id"),
        ranges.column("min_key"),
        ranges.column("max_key"),
    )
    if not pc.all(pc.match_substring_regex(ids, r"^[0-9a-f]{64}$"), min_count=0).as_py():
        raise DamagedError(path, "it names a range by what is no id")
    overlap = pc.any(pc.less_equal(begins[1:], ends[:-1]), min_count=0).as_py()
    if overlap or not ends.equals(keys):
        raise DamagedError(path, "its ranges overlap, or do not end where they say")
