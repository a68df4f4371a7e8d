"""Gather the values that the kernel keeps into batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro import ops
from lakesweep.avro.projection import Shape
from lakesweep.avro.room import copy_column, make_room, places
from lakesweep.errors import DamagedError

#: A batch ends when one of these is reached.
ROWS = 2**16
HEAP_BYTES = 2**22

#: Small files get less room: the system takes and clears whole pages, some of 2 MB, where any byte
#: of a slot is written to. A row may take one byte of a file; more than so many of heap are rare.
_LEAST_ROWS, _LEAST_HEAP_BYTES = 2**8, 2**14
_INFLATED = 16

_DEEPEST = 4096


@dataclass(frozen=True, slots=True)
class Rows:
    """So many rows, and the values of each slot in them."""

    count: int
    slots: list[pa.Array]


class Gatherer:
    """Runs a programme over blocks, and hands out what it kept.

    Room is made once, as a file of `size_bytes` may need it, and used again for every batch. A
    record that does not fit ends the batch, and is walked again for the next; one that does not fit
    into an empty batch makes the room larger. Text that is none raises ArrowInvalid. `spare_rows`
    is how many rows a block may claim without a byte for each.
    """

    def __init__(
        self,
        path: str,
        shapes: Sequence[Shape],
        program: npt.NDArray[np.int64],
        spare_rows: int,
        size_bytes: int,
    ) -> None:
        from lakesweep.avro.walk import walk  # imports numba

        self._kernel = walk
        self._path = path
        self._shapes = shapes
        self._program = program
        self._spare_rows = spare_rows
        self._room = make_room(len(shapes), *_size_room(size_bytes))
        self._places = places(self._room)
        self._cursor = np.zeros(4, dtype=np.int64)
        self._stack = np.empty((_DEEPEST, 2), dtype=np.int64)

    def feed(self, data: npt.NDArray[np.uint8], blocks: npt.NDArray[np.int64]) -> Iterator[Rows]:
        """Walk over blocks, rows of (first byte, end, records) in `data`."""
        self._cursor[:3] = 0, 0, -1
        while (status := self._walk(data, blocks)) != ops.DONE:
            if status != ops.FULL:
                raise DamagedError(self._path, ops.REASONS[status])
            if self._cursor[3]:
                yield self._take()
            else:
                self._grow()

    def finish(self) -> Iterator[Rows]:
        """Hand out the rows of the last batch, if there are any."""
        if self._cursor[3]:
            yield self._take()

    def _walk(self, data: npt.NDArray[np.uint8], blocks: npt.NDArray[np.int64]) -> int:
        return self._kernel(
            data, blocks, self._program, self._spare_rows, self._cursor, self._stack, self._places
        )

    def _grow(self) -> None:
        slots, values = self._room.valid.shape
        self._room = make_room(slots, 2 * values, 2 * self._room.heap.shape[1])
        self._places = places(self._room)

    def _take(self) -> Rows:
        count = int(self._cursor[3])
        slots = [
            copy_column(self._room, slot, shape, count) for slot, shape in enumerate(self._shapes)
        ]
        self._cursor[3] = 0
        self._room.filled[:] = 0
        return Rows(count, slots)


def _size_room(size_bytes: int) -> tuple[int, int]:
    """How many rows, and bytes of heap, there is room for while a file of this size is read."""
    rows = min(ROWS, max(_LEAST_ROWS, size_bytes))
    return rows, min(HEAP_BYTES, max(_LEAST_HEAP_BYTES, size_bytes * _INFLATED))
