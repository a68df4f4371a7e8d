"""The kernels: find the blocks of a file, and run a programme over their records.

Every read is checked against the end of its block, and every loop takes at least one byte a turn,
so that no input can make it crash or run for ever. Values that are kept are checked; values that
are stepped over are only measured. Where a function answers with a position, a negative one is the
code of what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.avro import ops
from lakesweep.avro.room import Room
from lakesweep.native import (
    at,
    copy_bytes,
    count_ones,
    inlined,
    kernel,
    leading_zeros,
    load64,
    trailing_zeros,
)

_ENDS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_SYNC_BYTES = 16


@inlined
def _read_long(data: Any, p: int, end: int) -> tuple[int, int]:
    """Read one number; answers (number, position after it)."""
    if p < end:
        byte = np.int64(at(data, p))
        if byte < 128:
            return (byte >> 1) ^ -(byte & 1), p + 1
    return _read_long_slowly(data, p, end)


@kernel
def _read_long_slowly(data: Any, p: int, end: int) -> tuple[int, int]:
    value = np.uint64(0)
    for i in range(10):
        if p + i >= end:
            return np.int64(0), np.int64(ops.PAST_END)
        byte = at(data, p + i)
        if i == 9 and byte > 1:
            break
        value |= np.uint64(byte & 127) << np.uint64(7 * i)
        if byte < 128:
            sign = -np.int64(value & _ONE)
            return np.int64(value >> _ONE) ^ sign, p + i + 1
    return np.int64(0), np.int64(ops.LONG_VARINT)


@inlined
def _skip_varints(data: Any, p: int, end: int, count: int) -> int:
    """Step over numbers, eight bytes at a time: a number ends at a byte below 128."""
    while count > 0:
        ends = ~load64(data, p) & _ENDS if end - p >= 8 else np.uint64(0)
        found = count_ones(ends)
        if found == 0:
            _, p = _read_long(data, p, end)
            if p < 0:
                return p
            count -= 1
        elif found <= count:
            p += 8 - (leading_zeros(ends) >> 3)
            count -= found
        else:
            for _ in range(count - 1):
                ends &= ends - _ONE
            return p + (trailing_zeros(ends) >> 3) + 1
    return p


@inlined
def _read_size(data: Any, p: int, end: int) -> tuple[int, int]:
    """Read a length of what follows, all of which must be there."""
    size, p = _read_long(data, p, end)
    if p < 0:
        return np.int64(0), p
    if size < 0:
        return np.int64(0), np.int64(ops.NEGATIVE_LENGTH)
    if size > end - p:
        return np.int64(0), np.int64(ops.PAST_END)
    return size, p


@inlined
def _skip_bytes(data: Any, p: int, end: int) -> int:
    size, p = _read_size(data, p, end)
    return p + size


@inlined
def _skip_fixed(p: int, end: int, size: int) -> int:
    return p + size if size <= end - p else np.int64(ops.PAST_END)


@inlined
def _skip_optional(data: Any, p: int, end: int, null_branch: int, varint: bool) -> int:  # noqa: FBT001
    if p >= end:
        return np.int64(ops.PAST_END)
    branch = np.int64(at(data, p)) >> 1
    if at(data, p) & 129 or branch > 1:
        return np.int64(ops.NO_SUCH_BRANCH)
    if branch == null_branch:
        return p + 1
    return _skip_varints(data, p + 1, end, 1) if varint else _skip_bytes(data, p + 1, end)


@inlined
def _open_items(data: Any, p: int, end: int) -> tuple[int, int]:
    """Find the next block of items that must be walked; answers (0, position) after the last.

    A block whose size in bytes is given is leapt over.
    """
    while True:
        count, p = _read_long(data, p, end)
        if p < 0 or count == 0:
            return np.int64(0), p
        if count > 0:
            return count, p
        p = _skip_bytes(data, p, end)
        if p < 0:
            return np.int64(0), p


@inlined
def _skip_array_of_varints(data: Any, p: int, end: int, each: int) -> int:
    while True:
        count, p = _open_items(data, p, end)
        if p < 0 or count == 0:
            return p
        if count > end - p or count * each > end - p:
            return np.int64(ops.TOO_MANY_ITEMS)
        p = _skip_varints(data, p, end, count * each)
        if p < 0:
            return p


@inlined
def _skip_array_of_fixed(data: Any, p: int, end: int, each: int) -> int:
    while True:
        count, p = _open_items(data, p, end)
        if p < 0 or count == 0:
            return p
        if each > 0:
            if count > end - p or count * each > end - p:
                return np.int64(ops.TOO_MANY_ITEMS)
            p += count * each


@inlined
def _skip_pairs(data: Any, p: int, end: int, count: int) -> int:
    """Step over numbers each followed by bytes. Short ones, nearly all, take three loads or less."""
    while count > 0:
        count -= 1
        if end - p >= 3:
            head = 2 if at(data, p) < 128 else 3
            size = np.int64(at(data, p + head - 1))
            if size & 129 == 0 and (head == 2 or at(data, p + 1) < 128):
                p += head + (size >> 1)
                continue
        p = _skip_varints(data, p, end, 1)
        if p >= 0:
            p = _skip_bytes(data, p, end)
        if p < 0:
            return p
    return p if p <= end else np.int64(ops.PAST_END)


@inlined
def _skip_array_of_pairs(data: Any, p: int, end: int) -> int:
    while True:
        count, p = _open_items(data, p, end)
        if p < 0 or count == 0:
            return p
        if count > end - p:
            return np.int64(ops.TOO_MANY_ITEMS)
        p = _skip_pairs(data, p, end, count)
        if p < 0:
            return p


@inlined
def _skip(data: Any, p: int, end: int, op: int, a: int) -> int:
    if op == ops.SKIP_VARINTS:
        return _skip_varints(data, p, end, a)
    if op == ops.SKIP_BYTES:
        return _skip_bytes(data, p, end)
    if op == ops.SKIP_FIXED:
        return _skip_fixed(p, end, a)
    if op == ops.SKIP_OPTIONAL_VARINT:
        return _skip_optional(data, p, end, a, True)
    if op == ops.SKIP_OPTIONAL_BYTES:
        return _skip_optional(data, p, end, a, False)
    if op == ops.SKIP_ARRAY_VARINTS:
        return _skip_array_of_varints(data, p, end, a)
    if op == ops.SKIP_ARRAY_PAIRS:
        return _skip_array_of_pairs(data, p, end)
    return _skip_array_of_fixed(data, p, end, a)


@inlined
def _read_number(data: Any, p: int, end: int, op: int, symbols: int) -> tuple[int, int]:
    """Read and check a value that fits into 64 bits; answers (bits, position)."""
    if op <= ops.KEEP_ENUM:
        value, p = _read_long(data, p, end)
        if op == ops.KEEP_INT and value != np.int64(np.int32(value)):
            p = np.int64(ops.INT_RANGE)
        if op == ops.KEEP_ENUM and not 0 <= value < symbols and p >= 0:
            p = np.int64(ops.NO_SUCH_SYMBOL)
        return value, p
    size = 1 if op == ops.KEEP_BOOLEAN else (4 if op == ops.KEEP_FLOAT else 8)
    if size > end - p:
        return np.int64(0), np.int64(ops.PAST_END)
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(at(data, p + i)) << (8 * i)
    if size == 1 and value > 1:
        return value, np.int64(ops.NOT_BOOLEAN)
    return value, p + size


@inlined
def _keep_number(data: Any, p: int, end: int, op: int, slot: int, c: int, room: Room) -> int:
    filled, numbers, valid = room.filled, room.numbers, room.valid
    n = filled[slot]
    if n >= numbers.shape[1]:
        return np.int64(ops.FULL)
    value, p = _read_number(data, p, end, op, c)
    if p >= 0:
        numbers[slot, n] = value
        valid[slot, n] = 1
        filled[slot] = n + 1
    return p


@inlined
def _keep_bytes(data: Any, p: int, end: int, op: int, slot: int, c: int, room: Room) -> int:
    filled, valid, offsets, heap = room.filled, room.valid, room.offsets, room.heap
    n = filled[slot]
    if op == ops.KEEP_BYTES:
        size, p = _read_size(data, p, end)
    else:
        size, p = c, (p if c <= end - p else np.int64(ops.PAST_END))
    if p < 0:
        return p
    start = np.int64(offsets[slot, n])
    if n >= valid.shape[1] or size > heap.shape[1] - start:
        return np.int64(ops.FULL)
    copy_bytes(heap, slot * heap.shape[1] + start, data, p, size)
    offsets[slot, n + 1] = start + size
    valid[slot, n] = 1
    filled[slot] = n + 1
    return p + size


@inlined
def _keep_null(slot: int, size: int, room: Room) -> bool:
    """Append a null, with zero bytes in its place; answers whether there was room."""
    filled, valid, offsets, heap = room.filled, room.valid, room.offsets, room.heap
    n = filled[slot]
    if n >= valid.shape[1]:
        return False
    start = np.int64(offsets[slot, n])
    if size > heap.shape[1] - start:
        return False
    for i in range(size):
        heap[slot, start + i] = 0
    offsets[slot, n + 1] = start + size
    valid[slot, n] = 0
    filled[slot] = n + 1
    return True


@inlined
def _next_item(data: Any, p: int, end: int, walk_all: int, frame: Any) -> tuple[bool, int]:
    """Go on to the next item of the loop on top of the stack; answers (is there one, position)."""
    if frame[0] > 0:
        frame[0] -= 1
        return True, p
    if frame[1] >= 0 and p != frame[1]:
        return False, np.int64(ops.WRONG_ARRAY_SIZE)
    frame[1] = -1
    if walk_all == 0:
        count, p = _open_items(data, p, end)
    else:
        count, p = _read_long(data, p, end)
        if p >= 0 and count < 0:
            size, p = _read_size(data, p, end)
            frame[1] = p + size
            count = -count
    if p < 0 or count == 0:
        return False, p
    if count > end - p or count < 0:
        return False, np.int64(ops.TOO_MANY_ITEMS)
    frame[0] = count - 1
    return True, p


@inlined
def _leading_nulls(data: Any, p: int, end: int, most: int) -> int:
    nulls = 0
    while nulls < most and p + nulls < end and at(data, p + nulls) == 0:
        nulls += 1
    return nulls


@inlined
def _walk_record(data: Any, p: int, end: int, row: int, program: Any, stack: Any, room: Room) -> int:  # noqa: C901, PLR0912, PLR0915
    """Run the programme once. One long chain of branches, which becomes one jump table."""
    filled, lists, list_valid = room.filled, room.lists, room.list_valid
    pc, depth = 0, 0
    while True:
        op, a, b, c = at(program, pc), at(program, pc + 1), at(program, pc + 2), at(program, pc + 3)
        pc += ops.WIDTH
        if op <= ops.LAST_SKIP:
            p = _skip(data, p, end, op, a)
            if p < 0:
                return p
        elif op <= ops.LAST_KEEP:
            if op <= ops.LAST_NUMBER:
                after = _keep_number(data, p, end, op, a, c, room)
            else:
                after = _keep_bytes(data, p, end, op, a, c, room)
            if after < 0:
                return after
            if b == 0:
                p = after
        elif op == ops.END:
            return p
        elif op == ops.JUMP:
            pc = a
        elif op == ops.UNION:
            branch, p = _read_long(data, p, end)
            if p < 0:
                return p
            if branch < 0 or branch >= a:
                return np.int64(ops.NO_SUCH_BRANCH)
            pc = at(program, pc + branch * ops.WIDTH + 1)
        elif op == ops.NULL_RUN:
            nulls = _leading_nulls(data, p, end, a)
            p += nulls
            pc = at(program, pc + nulls * ops.WIDTH + 1)
        elif op == ops.KEEP_NULL:
            if not _keep_null(a, c, room):
                return np.int64(ops.FULL)
        elif op <= ops.KEEP_NULL_LIST:
            lists[a, row + 1] = filled[a]
            list_valid[a, row] = 1 if op == ops.KEEP_LIST else 0
        elif op == ops.NEXT:
            more, p = _next_item(data, p, end, b, stack[depth - 1])
            if p < 0:
                return p
            if more:
                pc = a
            else:
                depth -= 1
        elif op == ops.RETURN:
            depth -= 1
            pc = stack[depth, 0]
        else:
            if depth >= stack.shape[0]:
                return np.int64(ops.TOO_DEEP)
            stack[depth, 0] = pc if op == ops.CALL else 0
            stack[depth, 1] = -1
            depth += 1
            pc = a


@kernel
def walk(
    data: Any, blocks: Any, program: Any, spare_rows: int, cursor: Any, stack: Any, room: Room
) -> int:
    """Walk the records of blocks from where `cursor` stands to the end, or until it is full.

    A row of `blocks` is (first byte, end, records). `cursor` is (block, position, records left in
    the block or -1 before it, rows kept); after an answer other than DONE it stands on the record
    that the answer is about.
    """
    block, p, left, row = cursor[0], cursor[1], cursor[2], cursor[3]
    status = np.int64(ops.DONE)
    most = room.valid.shape[1]
    while status == ops.DONE and block < blocks.shape[0]:
        end = blocks[block, 1]
        if left < 0:
            p, left = blocks[block, 0], blocks[block, 2]
            if left > max(end - p, spare_rows):
                status = np.int64(ops.TOO_MANY_RECORDS)
        while status == ops.DONE and left > 0:
            after = np.int64(ops.FULL)
            if row < most:
                after = _walk_record(data, p, end, row, program, stack, room)
            if after < 0:
                status = after
            else:
                p, left, row = after, left - 1, row + 1
        if status == ops.DONE:
            if p != end:
                status = np.int64(ops.LEFT_OVER)
            else:
                block, left = block + 1, -1
    cursor[0], cursor[1], cursor[2], cursor[3] = block, p, left, row
    return status


@kernel
def find_blocks(data: Any, p: int, sync: Any, table: Any) -> tuple[int, int, int]:
    """Fill `table` with (first byte, end, records) of the blocks from `p` on.

    Answers (blocks found, position after them, status); a block that is wrong is not in the table.
    """
    found = 0
    size = data.shape[0]
    while found < table.shape[0] and p < size:
        records, after = _read_long(data, p, size)
        length = np.int64(0)
        if after >= 0:
            length, after = _read_long(data, after, size)
        if after == ops.PAST_END or (after >= 0 and length > size - after - _SYNC_BYTES):
            return found, p, np.int64(ops.FILE_ENDS)
        if after < 0:
            return found, p, after
        if records < 0 or length < 0:
            wrong = ops.NEGATIVE_COUNT if records < 0 else ops.NEGATIVE_LENGTH
            return found, p, np.int64(wrong)
        end = after + length
        for i in range(_SYNC_BYTES):
            if at(data, end + i) != sync[i]:
                return found, p, np.int64(ops.BAD_SYNC)
        table[found, 0], table[found, 1], table[found, 2] = after, end, records
        found += 1
        p = end + _SYNC_BYTES
    return found, p, np.int64(ops.DONE)
