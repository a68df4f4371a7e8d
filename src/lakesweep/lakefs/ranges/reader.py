"""Read ranges and metaranges as Arrow batches, one at a time or the whole tree of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import ENTRIES, RANGES, AddressType
from lakesweep.lakefs.ranges.blocks import Bytes, Numbers, raise_for_code
from lakesweep.lakefs.ranges.sstable import (
    RecordWalk,
    SSTableProperties,
    SSTableType,
    byte_strings,
    open_sstable,
    read_sstable,
)
from lakesweep.parallel import map_ordered

#: What an address begins with that is complete, where its entry does not say of which type it is.
_FULL = r"^(?i:s3|mem|local|gs|https?)://"
_BY_PREFIX, _RELATIVE = 0, 1
_TYPES = pa.array([AddressType.FULL, AddressType.RELATIVE], pa.string())
#: The kind of an entry is that of its address, plus this if it has a time.
_HAS_TIME = 4
#: How much is decoded at a time: it stays in the cache of a core.
_GROUP_BYTES = 1 << 19


def decode_range(
    path: str, data: bytes, range_id: str | None, schema: pa.Schema = ENTRIES
) -> pa.RecordBatch:
    """The objects of a range, as rows of ENTRIES. With an id, the file is verified against it.

    With `schema` only some columns are made: few callers need identities and checksums.
    """
    opened = open_sstable(path, data, SSTableType.RANGES)
    if opened.properties.entity:
        raise DamagedError(path, f"it holds {opened.properties.entity} records, not objects")
    columns = _Columns(opened.properties, schema)
    walk = RecordWalk(opened, range_id)
    for raw, values in walk.groups(_GROUP_BYTES):
        raise_for_code(path, columns.take(raw, values))
    return columns.batch(path, walk.keys())


class _Columns:
    """The columns of a range, filled a group of records at a time.

    Each is allocated larger than needed; memory is only used once it is written.
    """

    def __init__(self, told: SSTableProperties, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows = 0
        wanted = {"address", *schema.names}  # without it no type can be told
        self._texts = {
            name: (
                np.empty(told.value_bytes if name in wanted else 0, np.uint8),
                np.zeros(told.records + 1, np.int32),
            )
            for name in ("address", "checksum", "identity")
        }
        self._numbers = np.empty((2, told.records), np.int64)
        self._kinds = np.empty(told.records, np.uint8)

    def take(self, raw: Bytes, values: Numbers) -> int:
        """Decode more records; a negative result is an error code."""
        from lakesweep.lakefs.ranges.value_kernels import decode_entries

        addresses, checksums, identities = self._texts.values()
        texts = (*addresses, *checksums, *identities)
        first = self._rows
        self._rows += len(values)
        return decode_entries(raw, values, first, *texts, self._numbers, self._kinds)

    def batch(self, path: str, keys: pa.Array) -> pa.RecordBatch:
        """All rows."""
        columns: dict[str, Callable[[], pa.Array]] = {
            "path": lambda: keys,
            "address": lambda: self._text(path, "address", pa.string()),
            "address_type": lambda: self._types(path),
            "size_bytes": lambda: pa.array(self._numbers[0]),
            "checksum": lambda: self._text(path, "checksum", pa.string()),
            "modified": self._times,
            "identity": lambda: self._text(path, "identity", pa.binary()),
        }
        return pa.record_batch(
            [columns[name]() for name in self._schema.names], schema=self._schema
        )

    def _text(self, path: str, name: str, kind: pa.DataType) -> pa.Array:
        heap, ends = self._texts[name]
        return byte_strings(path, kind, heap[: ends[-1]], ends)

    def _types(self, path: str) -> pa.Array:
        """The types of addresses; if an entry does not say, by the scheme of its address."""
        stored = self._kinds & 3
        is_relative = stored == _RELATIVE
        if (unsaid := stored == _BY_PREFIX).any():
            texts = self._text(path, "address", pa.string())
            full = pc.match_substring_regex(texts, _FULL).to_numpy(zero_copy_only=False)
            is_relative |= unsaid & ~full
        return _TYPES.take(pa.array(is_relative.view(np.int8)))

    def _times(self) -> pa.Array:
        """Times as a column; null if there is none."""
        kind, moments = ENTRIES.field("modified").type, self._numbers[1]
        has_time = self._kinds >= _HAS_TIME
        if has_time.all():
            return pa.Array.from_buffers(kind, len(moments), [None, pa.py_buffer(moments)])
        return pa.array(moments, mask=~has_time).cast(kind)


def decode_metarange(path: str, data: bytes, metarange_id: str | None) -> pa.RecordBatch:
    """The ranges of a metarange, as rows of RANGES, which do not overlap."""
    from lakesweep.lakefs.ranges.value_kernels import decode_ranges

    table = read_sstable(path, data, SSTableType.METARANGES, metarange_id)
    rows = len(table.keys)
    min_keys, max_keys = np.empty((2, rows, 2), np.int64)
    numbers = np.empty((rows, 2), np.int64)
    raise_for_code(path, decode_ranges(table.raw, table.data, min_keys, max_keys, numbers))
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
    """Ids must be file names, and each range must end where it says, before the next begins."""
    ids, begins, ends = (
        ranges.column("range_id"),
        ranges.column("min_key"),
        ranges.column("max_key"),
    )
    if not pc.all(pc.match_substring_regex(ids, r"^[0-9a-f]{64}$"), min_count=0).as_py():
        raise DamagedError(path, "it names a range by an invalid id")
    overlap = pc.any(pc.less_equal(begins[1:], ends[:-1]), min_count=0).as_py()
    if overlap or not ends.equals(keys):
        raise DamagedError(path, "its ranges overlap, or do not end where they say")


#: How many ranges are fetched and decoded at a time.
_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Trees:
    """What the commits of one repository hold. Can be pickled."""

    files: RangeFiles
    namespace: StorageNamespace

    def ranges(self, metarange_id: str) -> pa.RecordBatch:
        """The ranges of a metarange, as rows of RANGES; none for the empty id of an empty tree."""
        if not metarange_id:
            return pa.record_batch([[]] * len(RANGES), schema=RANGES)
        data = self.files.read(metarange_id, meta=True)
        return decode_metarange(self.namespace.table(metarange_id), data, metarange_id)

    def entries(self, metarange_id: str) -> Iterator[pa.RecordBatch]:
        """All entries of a tree in path order, as rows of ENTRIES, one batch per range.

        DamagedError if a range is not what the metarange says.
        """
        ranges = self.ranges(metarange_id)
        ids = ranges.column("range_id").to_pylist()
        lasts, counts = ranges.column("max_key").to_pylist(), ranges.column("count").to_pylist()
        before: bytes | None = None
        found = map_ordered(self._range, ids, workers=_WORKERS)
        for id_, batch, last, count in zip(ids, found, lasts, counts, strict=True):
            _check_batch(self.namespace.table(id_), batch, before, last, count)
            before = last
            yield batch

    def _range(self, range_id: str) -> pa.RecordBatch:
        data = self.files.read(range_id, meta=False)
        return decode_range(self.namespace.table(range_id), data, range_id)


def _check_batch(
    path: str, batch: pa.RecordBatch, before: bytes | None, last: bytes, count: int
) -> None:
    """Compare a range with its metarange, and with the range before it."""
    paths = batch.column("path")
    if batch.num_rows != count or not count or paths[-1].as_py() != last:
        raise DamagedError(path, f"it has {batch.num_rows} entries, but its metarange says {count}")
    if before is not None and paths[0].as_py() <= before:
        raise DamagedError(path, "it begins before the previous range ends")


class RangeFiles(Protocol):
    """The range and metarange files of a repository. Can be pickled and shared.

    They never change: an id is a hash of the contents. So anything read from one can be cached
    forever.
    """

    def read(self, id_: str, *, meta: bool) -> bytes:
        """The file of a range, or with `meta` of a metarange, as stored.

        MissingError if it does not exist. The parser verifies it against the id.
        """
        ...
