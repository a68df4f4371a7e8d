"""Table files: sorted records in blocks, as lakeFS keeps ranges, metaranges and dumped refs in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import DamagedError, FormatError
from lakesweep.lakefs import states
from lakesweep.lakefs.blocks import (
    LARGEST_BYTES,
    Bytes,
    Numbers,
    check,
    check_blocks,
    inflate,
    read_blocks,
    read_small_block,
    uvarint,
)
from lakesweep.lakefs.footer import Footer, read_footer
from lakesweep.lakefs.ids import TableHash
from lakesweep.lakefs.properties import Properties, TableType, read_properties


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
        from lakesweep.lakefs.decoding import gather

        sizes = int((parts[:, 1] - parts[:, 0]).sum())
        heap, ends = np.empty(sizes, np.uint8), np.zeros(len(parts) + 1, np.int32)
        gather(self.raw, parts, heap, ends)
        return byte_strings(self.path, kind, heap, ends)


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose blocks are known to be whole: where each lies, and where it is once inflated."""

    path: str
    data: bytes
    properties: Properties
    handles: Numbers
    bounds: Numbers


def open_table(path: str, data: bytes, kind: TableType) -> Opened:
    """Check the frame of a file.

    FormatError, or what is below it, for a file that is damaged or no such table.
    """
    footer = read_footer(path, data)
    properties = _read_properties(path, data, footer)
    if properties.type is not kind:
        raise FormatError(path, f"it holds {properties.type}, not {kind}")
    handles = _data_handles(path, data, footer, properties)
    bounds = check_blocks(path, data, handles)
    _refuse_lies(path, properties, int(bounds[-1]))
    return Opened(path, data, properties, handles, bounds)


def _refuse_lies(path: str, told: Properties, raw_bytes: int) -> None:
    """Room is made for as much as a file says to have, so it must fit into its blocks.

    Only keys may be longer than what is stored of them.
    """
    room = told.key_bytes + told.value_bytes
    if room > LARGEST_BYTES or max(told.records, told.value_bytes) > raw_bytes:
        raise DamagedError(path, states.REASONS[states.TOO_LARGE])


def read_table(path: str, data: bytes, kind: TableType, id_: str | None = None) -> Table:
    """Read a whole file and check all that can be checked; with `id_`, that it is its own."""
    from lakesweep.lakefs.decoding import open_envelopes

    opened = open_table(path, data, kind)
    walk = RecordWalk(opened, id_)
    [(raw, values)] = walk.groups(most_bytes=LARGEST_BYTES)
    identities, parts = np.empty((2, len(values), 2), np.int64)
    check(path, open_envelopes(raw, values, identities, parts))
    return Table(path, opened.properties, walk.keys(), raw, identities, parts)


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
    from lakesweep.lakefs.unpacking import FEWEST_BYTES, read_index

    blocks = read_blocks(path, data, handles)
    found = np.empty((len(blocks.raw) // FEWEST_BYTES, 2), np.int64)
    count = read_index(blocks.raw, blocks.bounds, found)
    check(path, count)
    return found[:count].copy()


class RecordWalk:
    """Takes a table apart, some blocks at a time, which stay in the cache of a core.

    With an id it is proved at the end that it is the file's own.
    """

    def __init__(self, opened: Opened, id_: str | None) -> None:
        self._opened = opened
        self._id = id_
        told = opened.properties
        self._keys = np.empty(told.key_bytes, np.uint8)
        self._key_ends = np.zeros(told.records + 1, np.int32)
        self._done = np.array([0, 0, 0, 0, told.value_bytes])

    def groups(self, most_bytes: int) -> Iterator[tuple[Bytes, Numbers]]:
        """Inflated blocks, about so many bytes at a time, and where the values are in them.

        The next ones take their place. DamagedError, at the end at last, for what is not right.
        """
        from lakesweep.lakefs.unpacking import FEWEST_BYTES, FRAME_BYTES, unpack

        opened, told = self._opened, self._opened.properties
        path, bounds, hashed = opened.path, opened.bounds, TableHash()
        cuts = _cuts(bounds, most_bytes)
        largest = max(int(bounds[last] - bounds[first]) for first, last in cuts)
        raw, values = np.empty(largest, np.uint8), np.empty((largest // FEWEST_BYTES, 2), np.int64)
        frames = FRAME_BYTES * told.records
        stream = np.empty(told.key_bytes + told.value_bytes + frames if self._id else 0, np.uint8)
        for first, last in cuts:
            here = bounds[first : last + 1] - bounds[first]
            inflate(path, opened.data, opened.handles[first:last], here, raw)
            before = self._done[0]
            check(path, unpack(raw, here, self._keys, self._key_ends, values, stream, self._done))
            hashed.add(stream[: self._done[3]].data)
            yield raw, values[: self._done[0] - before]
        self._finish(hashed)

    def _finish(self, hashed: TableHash) -> None:
        path, told, found = self._opened.path, self._opened.properties, self._done[:3].tolist()
        if found != [told.records, told.key_bytes, told.value_bytes]:
            raise DamagedError(path, f"it has {found[0]} records, and says {told.records}")
        if self._id is not None and (own := hashed.finish(told.named)) != self._id:
            raise DamagedError(path, f"what it holds has the id {own}, not {self._id}")

    def keys(self) -> pa.Array:
        """All keys, when all groups were taken."""
        return byte_strings(self._opened.path, pa.binary(), self._keys, self._key_ends)


def _cuts(bounds: Numbers, most_bytes: int) -> list[tuple[int, int]]:
    """Which blocks are taken together: at least one, and several while they have so few bytes."""
    cuts: list[tuple[int, int]] = []
    first, blocks = 0, len(bounds) - 1
    while first < blocks or not cuts:
        last = int(np.searchsorted(bounds, bounds[first] + most_bytes, "right")) - 1
        last = min(max(last, first + 1), blocks)
        cuts.append((first, last))
        first = last
    return cuts


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
