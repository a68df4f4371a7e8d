"""The numba kernels: find the blocks of a file, and run a program over their records.

A position is an address. Every read is checked against the end of its block, every write
against the buffers, and every loop consumes at least one byte per iteration, so no input can
make it crash or run forever. Kept values are validated; skipped values are only measured.
Where a function returns a position, a negative one is an error code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.avro import opcodes
from lakesweep.native import (
    address,
    copy,
    count_ones,
    inlined,
    kernel,
    load8,
    load32,
    load64,
    load_word,
    store8,
    store32,
    store64,
    trailing_zeros,
)

_HIGH = np.uint64(0x8080808080808080)  # the highest bit of each byte
_LOW = np.uint64(0x0101010101010101)  # the lowest bit of each byte
_SEVEN = np.uint64(7)
_ONE = np.uint64(1)
_NOTHING = np.uint64(0)
_SYNC_BYTES = 16
_FRAME_BYTES = 16

# What a room's `places` are.
_MOST = 7
Places = tuple[int, int, int, int, int, int, int, int, int]
# The address of the frames, and how many there may be.
Stack = tuple[int, int]


@inlined
def _read_long(p: int, end: int) -> tuple[int, int]:
    """Read one number; returns (number, position after it)."""
    if p < end:
        byte = load8(p)
        if byte < 128:
            return (byte >> 1) ^ -(byte & 1), p + 1
    return _read_long_slowly(p, end)


@kernel
def _read_long_slowly(p: int, end: int) -> tuple[Any, int]:
    value = _NOTHING
    for i in range(10):
        if p + i >= end:
            return 0, opcodes.PAST_END
        byte = load8(p + i)
        if i == 9 and byte > 1:
            break
        value |= np.uint64(byte & 127) << np.uint64(7 * i)
        if byte < 128:
            return np.int64(value >> _ONE) ^ -np.int64(value & _ONE), p + i + 1
    return 0, opcodes.LONG_VARINT


@inlined
def _skip_varints(p: int, end: int, count: int) -> int:
    """Skip numbers, eight bytes at a time: a number ends at a byte below 128."""
    while end - p >= 8:
        ends = ~load_word(p) & _HIGH
        found = count_ones(ends)
        if found and count == 1:
            return p + (trailing_zeros(ends) >> 3) + 1
        if found >= count:
            # How many numbers have ended at each byte; then the first byte where that is `count`.
            ended = (ends >> _SEVEN) * _LOW
            there = ((ended | _HIGH) - np.uint64(count) * _LOW) & _HIGH
            return p + (trailing_zeros(there) >> 3) + 1
        count -= found
        p += 8
    while count > 0 and p < end:
        count -= 1 - (load8(p) >> 7)
        p += 1
    return p if count == 0 else opcodes.PAST_END


@inlined
def _read_size(p: int, end: int) -> tuple[int, int]:
    """Read the length of what follows, all of which must be present."""
    size, p = _read_long(p, end)
    if p < 0:
        return 0, p
    if size < 0:
        return 0, opcodes.NEGATIVE_LENGTH
    if size > end - p:
        return 0, opcodes.PAST_END
    return size, p


@inlined
def _skip_bytes(p: int, end: int) -> int:
    size, p = _read_size(p, end)
    return p + size


@inlined
def _open_items(p: int, end: int) -> tuple[int, int]:
    """Find the next block of items that must be processed; returns (0, position) after the last.

    A block with a known size in bytes is skipped at once.
    """
    while True:
        count, p = _read_long(p, end)
        if p < 0 or count >= 0:
            return count, p
        p = _skip_bytes(p, end)
        if p < 0:
            return 0, p


@inlined
def _skip_array_of_varints(p: int, end: int, each: int) -> int:
    while True:
        count, p = _open_items(p, end)
        if p < 0 or count == 0:
            return p
        if count > end - p or count * each > end - p:
            return opcodes.TOO_MANY_ITEMS
        p = _skip_varints(p, end, count * each)
        if p < 0:
            return p


@inlined
def _skip_array_of_fixed(p: int, end: int, each: int) -> int:
    while True:
        count, p = _open_items(p, end)
        if p < 0 or count == 0:
            return p
        if each > 0:
            if count > end - p or count * each > end - p:
                return opcodes.TOO_MANY_ITEMS
            p += count * each


@inlined
def _skip_pairs(p: int, end: int, count: int) -> int:
    """Skip numbers each followed by bytes; nearly all numbers and lengths are short."""
    while count > 0:
        count -= 1
        if end - p >= 3:
            if load8(p) < 128:
                size = load8(p + 1)
                if size & 129 == 0:
                    p += 2 + (size >> 1)
                    continue
            elif load8(p + 1) < 128:
                size = load8(p + 2)
                if size & 129 == 0:
                    p += 3 + (size >> 1)
                    continue
        p = _skip_varints(p, end, 1)
        if p >= 0:
            p = _skip_bytes(p, end)
        if p < 0:
            return p
    return p if p <= end else opcodes.PAST_END


@inlined
def _skip_array_of_pairs(p: int, end: int) -> int:
    while True:
        count, p = _open_items(p, end)
        if p < 0 or count == 0:
            return p
        if count > end - p:
            return opcodes.TOO_MANY_ITEMS
        p = _skip_pairs(p, end, count)
        if p < 0:
            return p


@inlined
def _skip(p: int, end: int, op: int, a: int) -> int:
    if op == opcodes.SKIP_VARINTS:
        return _skip_varints(p, end, a)
    if op == opcodes.SKIP_BYTES:
        return _skip_bytes(p, end)
    if op == opcodes.SKIP_FIXED:
        return p + a if a <= end - p else opcodes.PAST_END
    if op == opcodes.SKIP_ARRAY_VARINTS:
        return _skip_array_of_varints(p, end, a)
    if op == opcodes.SKIP_ARRAY_PAIRS:
        return _skip_array_of_pairs(p, end)
    return _skip_array_of_fixed(p, end, a)


@inlined
def _read_number(p: int, end: int, op: int, symbols: int) -> tuple[int, int]:
    """Read and check a value that fits into 64 bits; returns (bits, position)."""
    if op <= opcodes.KEEP_ENUM:
        value, p = _read_long(p, end)
        if p >= 0 and op == opcodes.KEEP_INT and value != np.int64(np.int32(value)):
            p = opcodes.INT_RANGE
        if p >= 0 and op == opcodes.KEEP_ENUM and not 0 <= value < symbols:
            p = opcodes.NO_SUCH_SYMBOL
        return value, p
    size = 1 if op == opcodes.KEEP_BOOLEAN else (4 if op == opcodes.KEEP_FLOAT else 8)
    if size > end - p:
        return 0, opcodes.PAST_END
    value = load8(p) if size == 1 else (load32(p) if size == 4 else load64(p))
    if size == 1 and value > 1:
        return 0, opcodes.NOT_BOOLEAN
    return value, p + size


@inlined
def _keep_number(p: int, end: int, op: int, slot: int, c: int, room: Places) -> int:
    filled, numbers, valid, _, _, _, _, most, _ = room
    n = load64(filled + 8 * slot)
    if n >= most:
        return opcodes.FULL
    value, p = _read_number(p, end, op, c)
    if p >= 0:
        store64(numbers + 8 * (slot * most + n), value)
        store8(valid + slot * most + n, 1)
        store64(filled + 8 * slot, n + 1)
    return p


@inlined
def _room_for_bytes(slot: int, size: int, room: Places) -> int:
    """Append an item of this many bytes; returns where they go."""
    filled, _, _, offsets, heap, _, _, most, heap_bytes = room
    n = load64(filled + 8 * slot)
    if n >= most:
        return opcodes.FULL
    offset = offsets + 4 * (slot * (most + 1) + n)
    start: int = load32(offset)
    if size > heap_bytes - start:
        return opcodes.FULL
    store32(offset + 4, start + size)
    store64(filled + 8 * slot, n + 1)
    return heap + slot * heap_bytes + start


@inlined
def _mark_last(slot: int, is_valid: int, room: Places) -> None:
    filled, _, valid, _, _, _, _, most, _ = room
    store8(valid + slot * most + load64(filled + 8 * slot) - 1, is_valid)


@inlined
def _keep_bytes(p: int, end: int, op: int, slot: int, c: int, room: Places) -> int:
    size = c
    if op == opcodes.KEEP_BYTES:
        size, p = _read_size(p, end)
        if p < 0:
            return p
    elif size > end - p:
        return opcodes.PAST_END
    place = _room_for_bytes(slot, size, room)
    if place < 0:
        return place
    copy(place, p, size)
    _mark_last(slot, 1, room)
    return p + size


@inlined
def _keep_null(slot: int, size: int, room: Places) -> int:
    """Append a null, with zero bytes in its place; a negative result means that it is full."""
    place = _room_for_bytes(slot, size, room)
    if place >= 0:
        for i in range(size):
            store8(place + i, 0)
        _mark_last(slot, 0, room)
    return place


@inlined
def _keep_list(op: int, slot: int, row: int, room: Places) -> None:
    filled, _, _, _, _, lists, list_valid, most, _ = room
    store32(lists + 4 * (slot * (most + 1) + row + 1), load64(filled + 8 * slot))
    store8(list_valid + slot * most + row, 1 if op == opcodes.KEEP_LIST else 0)


@inlined
def _next_item(p: int, end: int, walk_all: int, frame: int) -> tuple[int, int]:
    """Continue with the next item of a loop; returns (items left including it, position).

    A frame is (items left in this block, the block's end if known or -1).
    """
    left, known_end = load64(frame), load64(frame + 8)
    if left > 0:
        store64(frame, left - 1)
        return left, p
    if known_end >= 0 and p != known_end:
        return 0, opcodes.WRONG_ARRAY_SIZE
    known_end = -1
    if walk_all == 0:
        count, p = _open_items(p, end)
    else:
        count, p = _read_long(p, end)
        if p >= 0 and count < 0:
            size, p = _read_size(p, end)
            known_end = p + size
            count = -count
    if p >= 0 and (count > end - p or count < 0):
        p = opcodes.TOO_MANY_ITEMS
    store64(frame, count - 1)
    store64(frame + 8, known_end)
    return count, p


@inlined
def _leading_nulls(p: int, end: int, most: int) -> int:
    nulls = 0
    while nulls < most and p + nulls < end and load8(p + nulls) == 0:
        nulls += 1
    return nulls


@inlined
def _walk_record(p: int, end: int, row: int, program: int, stack: Stack, room: Places) -> int:  # noqa: PLR0915
    """Run the program once. One long chain of branches, which is compiled to one jump table."""
    pc, depth = program, 0
    frames, deepest = stack
    while True:
        op, a = load64(pc), load64(pc + 8)
        at, pc = pc, pc + opcodes.WIDTH
        if op <= opcodes.LAST_SKIP:
            null = load64(at + 16)
            if null >= 0:
                branch, p = _read_long(p, end)
                if p < 0:
                    return p
                if branch == null:
                    continue
                if branch != 1 - null:
                    return opcodes.NO_SUCH_BRANCH
            p = _skip(p, end, op, a)
            if p < 0:
                return p
        elif op <= opcodes.LAST_KEEP:
            if op <= opcodes.LAST_NUMBER:
                after = _keep_number(p, end, op, a, load64(at + 24), room)
            else:
                after = _keep_bytes(p, end, op, a, load64(at + 24), room)
            if after < 0:
                return after
            if load64(at + 16) == 0:
                p = after
        elif op == opcodes.END:
            return p
        elif op == opcodes.JUMP:
            pc = program + a
        elif op == opcodes.UNION:
            branch, p = _read_long(p, end)
            if p < 0:
                return p
            if branch < 0 or branch >= a:
                return opcodes.NO_SUCH_BRANCH
            pc = program + load64(pc + branch * opcodes.WIDTH + 8)
        elif op == opcodes.NULL_RUN:
            nulls = _leading_nulls(p, end, a)
            p += nulls
            pc = program + load64(pc + nulls * opcodes.WIDTH + 8)
        elif op == opcodes.KEEP_NULL:
            if _keep_null(a, load64(at + 24), room) < 0:
                return opcodes.FULL
        elif op <= opcodes.KEEP_NULL_LIST:
            _keep_list(op, a, row, room)
        elif op == opcodes.NEXT:
            left, p = _next_item(p, end, load64(at + 16), frames + (depth - 1) * _FRAME_BYTES)
            if p < 0:
                return p
            if left > 0:
                pc = program + a
            else:
                depth -= 1
        elif op == opcodes.RETURN:
            depth -= 1
            pc = load64(frames + depth * _FRAME_BYTES)
        else:
            if depth >= deepest:
                return opcodes.TOO_DEEP
            store64(frames + depth * _FRAME_BYTES, pc if op == opcodes.CALL else 0)
            store64(frames + depth * _FRAME_BYTES + 8, -1)
            depth += 1
            pc = program + a


@kernel
def walk(
    data: Any, blocks: Any, program: Any, spare_rows: int, cursor: Any, stack: Any, room: Any
) -> int:
    """Process the records of blocks from `cursor` to the end, or until the buffers are full.

    A row of `blocks` is (first byte, end, records). `cursor` is (block, position, records left in
    the block or -1 before it, rows kept); after a result other than DONE it is at the record that
    the result is about.
    """
    base, code = address(data), address(program)
    frames = address(stack), stack.shape[0]
    most = room[_MOST]
    # fmt: off
    places = (
        room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7], room[8]
    )
    # fmt: on
    block, p, left, row = cursor[0], base + cursor[1], cursor[2], cursor[3]
    status = opcodes.DONE
    while status == opcodes.DONE and block < blocks.shape[0]:
        end = base + blocks[block, 1]
        if left < 0:
            p, left = base + blocks[block, 0], blocks[block, 2]
            if left > max(end - p, spare_rows):
                status = opcodes.TOO_MANY_RECORDS
        while status == opcodes.DONE and left > 0:
            after = opcodes.FULL
            if row < most:
                after = _walk_record(p, end, row, code, frames, places)
            if after < 0:
                status = after
            else:
                p, left, row = after, left - 1, row + 1
        if status == opcodes.DONE:
            if p == end:
                block, left = block + 1, -1
            else:
                status = opcodes.LEFT_OVER
    cursor[0], cursor[1], cursor[2], cursor[3] = block, p - base, left, row
    return status


@kernel
def find_blocks(data: Any, position: int, sync: Any, table: Any) -> tuple[int, int, int]:
    """Fill `table` with (first byte, end, records) of the blocks from `position` on.

    Returns (blocks found, position after them, status); an invalid block is not in the table.
    """
    base, mark, found = address(data), address(sync), 0
    p, end = base + position, base + data.shape[0]
    while found < table.shape[0] and p < end:
        records, after = _read_long(p, end)
        length = 0
        if after >= 0:
            length, after = _read_long(after, end)
        if after == opcodes.PAST_END or (after >= 0 and length > end - after - _SYNC_BYTES):
            return found, p - base, opcodes.FILE_ENDS
        if after < 0:
            return found, p - base, after
        if records < 0 or length < 0:
            return (
                found,
                p - base,
                opcodes.NEGATIVE_COUNT if records < 0 else opcodes.NEGATIVE_LENGTH,
            )
        behind = after + length
        if load64(behind) != load64(mark) or load64(behind + 8) != load64(mark + 8):
            return found, p - base, opcodes.BAD_SYNC
        table[found, 0], table[found, 1], table[found, 2] = after - base, behind - base, records
        found += 1
        p = behind + _SYNC_BYTES
    return found, p - base, opcodes.DONE
