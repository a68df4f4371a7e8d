"""The room that the kernel keeps values in, and how it becomes Arrow arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro.projection import Shape
from lakesweep.avro.schema import Kind, Leaf

_TYPES = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.STRING: pa.string(),
    Kind.ENUM: pa.string(),
}


class Room(NamedTuple):
    """Values of every slot, one slot a row of each array.

    A slot uses what its type needs: numbers (also for booleans, the bits of floats, and places in
    an enum), or offsets and heap. `lists` are the offsets of lists over the values.
    """

    filled: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    heap: npt.NDArray[np.uint8]
    lists: npt.NDArray[np.int32]
    list_valid: npt.NDArray[np.uint8]


def make_room(slots: int, values: int, heap_bytes: int) -> Room:
    """Room for so many values a slot. Memory is taken only as it is written to."""
    offsets = np.empty((slots, values + 1), dtype=np.int32)
    lists = np.empty((slots, values + 1), dtype=np.int32)
    offsets[:, 0] = lists[:, 0] = 0
    return Room(
        filled=np.zeros(slots, dtype=np.int64),
        numbers=np.empty((slots, values), dtype=np.int64),
        valid=np.empty((slots, values), dtype=np.uint8),
        offsets=offsets,
        heap=np.empty((slots, heap_bytes), dtype=np.uint8),
        lists=lists,
        list_valid=np.empty((slots, values), dtype=np.uint8),
    )


def places(room: Room) -> npt.NDArray[np.int64]:
    """What the kernel needs to know of a room.

    The addresses of its arrays in their order; then how many values, and how many bytes of heap,
    a slot has room for. They hold as long as the room does.
    """
    addresses = [array.ctypes.data for array in room]
    return np.array([*addresses, room.valid.shape[1], room.heap.shape[1]], dtype=np.int64)


def arrow_type(shape: Shape) -> pa.DataType:
    """The Arrow type of a column."""
    leaf = shape.leaf
    value = pa.binary(leaf.size) if leaf.kind is Kind.FIXED else _TYPES[leaf.kind]
    return pa.list_(value) if shape.is_list else value


def copy_column(room: Room, slot: int, shape: Shape, rows: int) -> pa.Array:
    """Copy the first rows of a slot out of the room; raises ArrowInvalid for text that is none."""
    if not shape.is_list:
        return _values(room, slot, shape.leaf, rows)
    offsets = room.lists[slot, : rows + 1]
    values = _values(room, slot, shape.leaf, int(offsets[-1]))
    buffers = [_bitmap(room.list_valid[slot, :rows]), pa.py_buffer(offsets.copy())]
    return pa.Array.from_buffers(arrow_type(shape), rows, buffers, children=[values])


def _values(room: Room, slot: int, leaf: Leaf, count: int) -> pa.Array:
    valid = _bitmap(room.valid[slot, :count])
    match leaf.kind:
        case Kind.NULL:
            return pa.nulls(count)
        case Kind.ENUM:
            return _symbols(room.numbers[slot, :count], valid, leaf.symbols)
        case Kind.BYTES | Kind.STRING | Kind.FIXED:
            return _byte_strings(room, slot, leaf, count, valid)
    values = _number_buffer(room.numbers[slot, :count], leaf.kind)
    return pa.Array.from_buffers(_TYPES[leaf.kind], count, [valid, values])


def _bitmap(valid: npt.NDArray[np.uint8]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _number_buffer(numbers: npt.NDArray[np.int64], kind: Kind) -> pa.Buffer:
    match kind:
        case Kind.BOOLEAN:
            return pa.py_buffer(np.packbits(numbers == 1, bitorder="little"))
        case Kind.INT | Kind.FLOAT:
            return pa.py_buffer(numbers.astype(np.int32))
    return pa.py_buffer(numbers.copy())


def _byte_strings(
    room: Room, slot: int, leaf: Leaf, count: int, valid: pa.Buffer | None
) -> pa.Array:
    offsets = room.offsets[slot, : count + 1]
    used = room.heap[slot, : offsets[-1]].copy()
    heap = pa.py_buffer(used)
    if leaf.kind is Kind.FIXED:
        return pa.Array.from_buffers(pa.binary(leaf.size), count, [valid, heap])
    buffers = [valid, pa.py_buffer(offsets.copy()), heap]
    array = pa.Array.from_buffers(_TYPES[leaf.kind], count, buffers)
    if leaf.kind is Kind.STRING and not _is_ascii(used):
        array.validate(full=True)
    return array


def _is_ascii(characters: npt.NDArray[np.uint8]) -> bool:
    """Whether all is ASCII, as nearly all paths are; tells it at a sixth of the price."""
    return not len(characters) or int(characters.max()) < 128


def _symbols(
    places: npt.NDArray[np.int64], valid: pa.Buffer | None, symbols: tuple[str, ...]
) -> pa.Array:
    chosen = pa.Array.from_buffers(pa.int64(), len(places), [valid, pa.py_buffer(places.copy())])
    return pa.array(symbols, pa.string()).take(chosen)
