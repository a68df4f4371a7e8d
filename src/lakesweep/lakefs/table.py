"""Table files: sorted records in blocks, as lakeFS keeps ranges, metaranges and dumped refs in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import DamagedError, FormatError
from lakesweep.lakefs.blocks import (
    Blocks,
    Bytes,
    Numbers,
    check,
    read_blocks,
    read_small_block,
    uvarint,
)
from lakesweep.lakefs.footer import Footer, read_footer
from lakesweep.lakefs.ids import table_id
from lakesweep.lakefs.properties import Properties, TableType, read_properties

#: Digits of two lengths, and two bars, around a record in what an id is the hash of.
_FRAME_BYTES = 22
#: So many records are written for hashing at a time: they stay in the caches of the machine.
_STREAM_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class Table:
    """The records of one file, in the order of their keys. Parts are bounds in `raw`, one a row."""

    path: str
    properties: Properties
    keys: pa.Array
    raw: Bytes
    identities: Numbers
    data: Numbers

    def gather(self, parts: Numbers, kind: pa.DataType) -> pa.Array:
        """Parts of the records as a column; DamagedError for text that is none."""
        from lakesweep.lakefs.walk import gather

        sizes = int((parts[:, 1] - parts[:, 0]).sum())
        heap, ends = np.empty(sizes, np.uint8), np.zeros(len(parts) + 1, np.int32)
        gather(self.raw, parts, heap, ends)
        return byte_strings(self.path, kind, heap, ends)


def read_table(path: str, data: bytes, kind: TableType, id_: str | None = None) -> Table:
    """Read a whole file and check all that can be checked; with `id_`, that it is its own.

    FormatError, or what is below it, for a file that is damaged or no such table.
    """
    footer = read_footer(path, data)
    properties = _read_properties(path, data, footer)
    if properties.type is not kind:
        raise FormatError(path, f"it holds {properties.type}, not {kind}")
    blocks = read_blocks(path, data, _data_handles(path, data, footer, properties))
    return _unpack(path, properties, blocks, id_)


def _read_properties(path: str, data: bytes, footer: Footer) -> Properties:
    named = read_small_block(path, data, footer.metaindex)
    if b"rocksdb.range_del" in named:
        raise FormatError(path, "it has deletions of ranges, which lakeFS does not write")
    try:
        value = named[b"rocksdb.properties"]
        start, at = uvarint(value, 0)
        size, _ = uvarint(value, at)
    except (KeyError, IndexError):
        raise DamagedError(path, "it does not say where its properties are") from None
    if max(start, size) > len(data):
        raise DamagedError(path, "its properties lie beyond its end")
    return read_properties(path, read_small_block(path, data, (start, size)))


def _data_handles(path: str, data: bytes, footer: Footer, properties: Properties) -> Numbers:
    """Where the blocks of records are: through one level of an index, or two."""
    handles = _index_handles(path, data, np.array([footer.index], np.int64))
    if properties.two_level:
        handles = _index_handles(path, data, handles)
    if len(handles) != properties.data_blocks:
        blocks = properties.data_blocks
        raise DamagedError(path, f"its index has {len(handles)} blocks, and it says {blocks}")
    return handles


def _index_handles(path: str, data: bytes, handles: Numbers) -> Numbers:
    from lakesweep.lakefs.walk import find_values, read_handles

    blocks = read_blocks(path, data, handles)
    totals = _measure(path, blocks)
    values = np.empty((totals[0], 2), np.int64)
    find_values(blocks.raw, blocks.bounds, values)
    found = np.empty((totals[0], 2), np.int64)
    check(path, read_handles(blocks.raw, values, found))
    return found


def _measure(path: str, blocks: Blocks) -> list[int]:
    from lakesweep.lakefs.walk import measure

    totals = np.zeros(4, np.int64)
    check(path, measure(blocks.raw, blocks.bounds, totals))
    return list(totals.tolist())


def _unpack(path: str, properties: Properties, blocks: Blocks, id_: str | None) -> Table:
    from lakesweep.lakefs.walk import open_envelopes, unpack

    records, key_bytes, value_bytes, longest = _measure(path, blocks)
    told = (properties.records, properties.key_bytes, properties.value_bytes)
    if told != (records, key_bytes, value_bytes):
        raise DamagedError(path, f"it has {records} records, and says {properties.records}")
    keys = np.empty(key_bytes, np.uint8)
    key_ends = np.zeros(records + 1, np.int32)
    values = np.empty((records, 2), np.int64)
    scratch = np.empty(longest, np.uint8)
    check(path, unpack(blocks.raw, blocks.bounds, scratch, keys, key_ends, values))
    if id_ is not None:
        _prove(path, properties, blocks.raw, (keys, key_ends, values), id_)
    identities, data = np.empty((2, records, 2), np.int64)
    check(path, open_envelopes(blocks.raw, values, identities, data))
    names = byte_strings(path, pa.binary(), keys, key_ends)
    return Table(path, properties, names, blocks.raw, identities, data)


def _prove(
    path: str,
    properties: Properties,
    raw: Bytes,
    records: tuple[Bytes, npt.NDArray[np.int32], Numbers],
    id_: str,
) -> None:
    from lakesweep.lakefs.walk import write_stream

    values = records[2]
    stream = np.empty(0, np.uint8)

    def pieces() -> Iterator[memoryview]:
        nonlocal stream
        for first in range(0, len(values), _STREAM_RECORDS):
            last = min(first + _STREAM_RECORDS, len(values))
            room = _stream_bytes(records, first, last)
            stream = stream if len(stream) >= room else np.empty(room, np.uint8)
            size = write_stream(raw, *records, first, last, stream)
            yield stream[:size].data

    found = table_id(pieces(), properties.named)
    if found != id_:
        raise DamagedError(path, f"what it holds has the id {found}, not {id_}")


def _stream_bytes(
    records: tuple[Bytes, npt.NDArray[np.int32], Numbers], first: int, last: int
) -> int:
    _, key_ends, values = records
    parts = values[first:last]
    key_bytes = int(key_ends[last] - key_ends[first])
    return key_bytes + int((parts[:, 1] - parts[:, 0]).sum()) + _FRAME_BYTES * len(parts)


def byte_strings(
    path: str, kind: pa.DataType, heap: Bytes, ends: npt.NDArray[np.int32]
) -> pa.Array:
    """A column of bytes or text that lies in `heap`."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(heap)]
    column = pa.Array.from_buffers(kind, len(ends) - 1, buffers)
    if kind == pa.string():
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise DamagedError(path, "a text in it is not UTF-8") from None
    return column
