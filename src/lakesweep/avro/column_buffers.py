"""The buffers that the kernel writes column values into, and the Arrow arrays made from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro import opcodes
from lakesweep.avro.projection import Shape
from lakesweep.avro.schema import AvroKind, LeafType
from lakesweep.errors import DamagedError

_TYPES = {
    AvroKind.NULL: pa.null(),
    AvroKind.BOOLEAN: pa.bool_(),
    AvroKind.INT: pa.int32(),
    AvroKind.LONG: pa.int64(),
    AvroKind.FLOAT: pa.float32(),
    AvroKind.DOUBLE: pa.float64(),
    AvroKind.BYTES: pa.binary(),
    AvroKind.STRING: pa.string(),
    AvroKind.ENUM: pa.string(),
}


class ColumnBuffers(NamedTuple):
    """Values of every slot, one slot per row of each array.

    A slot uses what its type needs: numbers (also for booleans, the bits of floats, and indexes
    into an enum), or offsets and heap. `lists` are the offsets of lists over the values.
    """

    filled: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    heap: npt.NDArray[np.uint8]
    lists: npt.NDArray[np.int32]
    list_valid: npt.NDArray[np.uint8]


def allocate_buffers(slots: int, values: int, heap_bytes: int) -> ColumnBuffers:
    """Buffers for this many values per slot. Memory is used only as it is written."""
    offsets = np.empty((slots, values + 1), dtype=np.int32)
    lists = np.empty((slots, values + 1), dtype=np.int32)
    offsets[:, 0] = lists[:, 0] = 0
    return ColumnBuffers(
        filled=np.zeros(slots, dtype=np.int64),
        numbers=np.empty((slots, values), dtype=np.int64),
        valid=np.empty((slots, values), dtype=np.uint8),
        offsets=offsets,
        heap=np.empty((slots, heap_bytes), dtype=np.uint8),
        lists=lists,
        list_valid=np.empty((slots, values), dtype=np.uint8),
    )


def buffer_addresses(columns: ColumnBuffers) -> npt.NDArray[np.int64]:
    """The description of buffers for the kernel.

    The addresses of the arrays in order; then the capacity of a slot in values, and in bytes of
    heap. Valid as long as the buffers are.
    """
    addresses = [array.ctypes.data for array in columns]
    return np.array([*addresses, columns.valid.shape[1], columns.heap.shape[1]], dtype=np.int64)


def arrow_type(shape: Shape) -> pa.DataType:
    """The Arrow type of a column."""
    leaf = shape.leaf
    value = pa.binary(leaf.size) if leaf.kind is AvroKind.FIXED else _TYPES[leaf.kind]
    return pa.list_(value) if shape.is_list else value


def copy_column(columns: ColumnBuffers, slot: int, shape: Shape, rows: int) -> pa.Array:
    """Copy the first rows of a slot out of the buffers; ArrowInvalid for invalid text."""
    if not shape.is_list:
        return _values(columns, slot, shape.leaf, rows)
    offsets = columns.lists[slot, : rows + 1]
    values = _values(columns, slot, shape.leaf, int(offsets[-1]))
    buffers = [_bitmap(columns.list_valid[slot, :rows]), pa.py_buffer(offsets.copy())]
    return pa.Array.from_buffers(arrow_type(shape), rows, buffers, children=[values])


def _values(columns: ColumnBuffers, slot: int, leaf: LeafType, count: int) -> pa.Array:
    valid = _bitmap(columns.valid[slot, :count])
    match leaf.kind:
        case AvroKind.NULL:
            return pa.nulls(count)
        case AvroKind.ENUM:
            return _symbols(columns.numbers[slot, :count], valid, leaf.symbols)
        case AvroKind.BYTES | AvroKind.STRING | AvroKind.FIXED:
            return _byte_strings(columns, slot, leaf, count, valid)
    values = _number_buffer(columns.numbers[slot, :count], leaf.kind)
    return pa.Array.from_buffers(_TYPES[leaf.kind], count, [valid, values])


def _bitmap(valid: npt.NDArray[np.uint8]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _number_buffer(numbers: npt.NDArray[np.int64], kind: AvroKind) -> pa.Buffer:
    match kind:
        case AvroKind.BOOLEAN:
            return pa.py_buffer(np.packbits(numbers == 1, bitorder="little"))
        case AvroKind.INT | AvroKind.FLOAT:
            return pa.py_buffer(numbers.astype(np.int32))
    return pa.py_buffer(numbers.copy())


def _byte_strings(
    columns: ColumnBuffers, slot: int, leaf: LeafType, count: int, valid: pa.Buffer | None
) -> pa.Array:
    offsets = columns.offsets[slot, : count + 1]
    used = columns.heap[slot, : offsets[-1]].copy()
    heap = pa.py_buffer(used)
    if leaf.kind is AvroKind.FIXED:
        return pa.Array.from_buffers(pa.binary(leaf.size), count, [valid, heap])
    buffers = [valid, pa.py_buffer(offsets.copy()), heap]
    array = pa.Array.from_buffers(_TYPES[leaf.kind], count, buffers)
    if leaf.kind is AvroKind.STRING and not _is_ascii(used):
        array.validate(full=True)
    return array


def _is_ascii(characters: npt.NDArray[np.uint8]) -> bool:
    """Whether everything is ASCII, as nearly all paths are; a check at a sixth of the cost."""
    return not len(characters) or int(characters.max()) < 128


def _symbols(
    places: npt.NDArray[np.int64], valid: pa.Buffer | None, symbols: tuple[str, ...]
) -> pa.Array:
    chosen = pa.Array.from_buffers(pa.int64(), len(places), [valid, pa.py_buffer(places.copy())])
    return pa.array(symbols, pa.string()).take(chosen)


#: A batch ends when one of these is reached.
ROWS = 2**16
HEAP_BYTES = 2**22

#: Small files get smaller buffers: the system clears whole pages, some of 2 MB, wherever a byte of
#: a slot is written. A row may take one byte of a file; larger heaps per row are rare.
_LEAST_ROWS, _LEAST_HEAP_BYTES = 2**8, 2**14
_INFLATED = 16

_DEEPEST = 4096


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """A number of rows, and the values of each slot in them."""

    count: int
    slots: list[pa.Array]


class BlockDecoder:
    """Runs a program over blocks, and returns what it kept.

    Buffers are allocated once, according to a file of `size_bytes`, and reused for every batch. A
    record that does not fit ends the batch, and is read again for the next; one that does not fit
    into an empty batch enlarges the buffers. Invalid text raises ArrowInvalid. `spare_rows` is how
    many rows a block may claim without a byte for each.
    """

    def __init__(
        self,
        path: str,
        shapes: Sequence[Shape],
        program: npt.NDArray[np.int64],
        spare_rows: int,
        size_bytes: int,
    ) -> None:
        from lakesweep.avro.decoder_kernels import walk  # imports numba

        self._kernel = walk
        self._path = path
        self._shapes = shapes
        self._program = program
        self._spare_rows = spare_rows
        self._columns = allocate_buffers(len(shapes), *_size_buffers(size_bytes))
        self._places = buffer_addresses(self._columns)
        self._cursor = np.zeros(4, dtype=np.int64)
        self._stack = np.empty((_DEEPEST, 2), dtype=np.int64)

    def feed(
        self, data: npt.NDArray[np.uint8], blocks: npt.NDArray[np.int64]
    ) -> Iterator[DecodedRows]:
        """Process blocks, given as rows of (first byte, end, records) in `data`."""
        # The cursor survives a full batch: the kernel resumes at the record that did not fit.
        self._cursor[:3] = 0, 0, -1
        while (status := self._walk(data, blocks)) != opcodes.DONE:
            if status != opcodes.FULL:
                raise DamagedError(self._path, opcodes.REASONS[status])
            if self._cursor[3]:
                yield self._take()
            else:
                self._grow()

    def finish(self) -> Iterator[DecodedRows]:
        """Return the rows of the last batch, if there are any."""
        if self._cursor[3]:
            yield self._take()

    def _walk(self, data: npt.NDArray[np.uint8], blocks: npt.NDArray[np.int64]) -> int:
        return self._kernel(
            data, blocks, self._program, self._spare_rows, self._cursor, self._stack, self._places
        )

    def _grow(self) -> None:
        slots, values = self._columns.valid.shape
        self._columns = allocate_buffers(slots, 2 * values, 2 * self._columns.heap.shape[1])
        self._places = buffer_addresses(self._columns)

    def _take(self) -> DecodedRows:
        count = int(self._cursor[3])
        slots = [
            copy_column(self._columns, slot, shape, count)
            for slot, shape in enumerate(self._shapes)
        ]
        self._cursor[3] = 0
        self._columns.filled[:] = 0
        return DecodedRows(count, slots)


def _size_buffers(size_bytes: int) -> tuple[int, int]:
    """The capacity in rows, and in bytes of heap, for reading a file of this size."""
    rows = min(ROWS, max(_LEAST_ROWS, size_bytes))
    return rows, min(HEAP_BYTES, max(_LEAST_HEAP_BYTES, size_bytes * _INFLATED))
