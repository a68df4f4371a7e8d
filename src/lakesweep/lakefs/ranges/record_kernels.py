"""Kernels that split blocks into records: prefix-compressed keys, and values.

A position is an address. Every read is checked against the end of its block, every write
against the space left, and every loop consumes at least one byte per turn, so no input can
crash it or make it run forever. A negative position is an error code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.lakefs.ranges import error_codes
from lakesweep.lakefs.ranges.varints import varint
from lakesweep.native import address, copy, inlined, kernel, load8, load32, load_word, store8

# An internal key ends in these eight bytes: a plain value that was set, of sequence number 0.
TRAILER_BYTES = 8
_SET = np.uint64(1)
# The fewest bytes of a record: three lengths.
FEWEST_BYTES = 3
# Digits of two lengths, and two bars, around a record in what an id is the hash of.
FRAME_BYTES = 22

_BAR = ord("|")
_ZERO = ord("0")


@inlined
def _records_end(start: int, end: int) -> Any:
    """Where the records of a block end, and its restart points begin."""
    if end - start < 8:
        return error_codes.SHORT_BLOCK
    restarts = load32(end - 4)
    if restarts < 1 or restarts > (end - start) // 4 - 1:
        return error_codes.SHORT_BLOCK
    return end - 4 * (restarts + 1)


@inlined
def _record(p: int, start: int, limit: int, restart: int, end: int, before: int) -> Any:
    """The head of a record: answers (shared, unshared, size, position of the key, next restart).

    `before` is how long the key before it is, of which it may share. A negative position is the
    code of what is wrong.
    """
    if restart < end - 4 and load32(restart) == p - start:
        before = 0  # so that nothing may be shared
        restart += 4
    elif p == start:
        return 0, 0, 0, np.int64(error_codes.BAD_RESTARTS), restart
    shared, p = varint(p, limit)
    unshared, p = varint(p, limit) if p > 0 else (0, p)
    size, p = varint(p, limit) if p > 0 else (0, p)
    if p < 0 or unshared < 0 or size < 0 or unshared > limit - p or size > limit - p - unshared:
        return 0, 0, 0, np.int64(error_codes.PAST_END), restart
    if shared < 0 or shared > before:
        return 0, 0, 0, np.int64(error_codes.NO_SUCH_PREFIX), restart
    if shared + unshared < TRAILER_BYTES:
        return 0, 0, 0, np.int64(error_codes.SHORT_KEY), restart
    return shared, unshared, size, p, restart


@inlined
def _ending(p: int, start: int, limit: int, restart: int, end: int) -> Any:
    """Whether all restart points of a block were met; an empty block has one too."""
    if p == start:
        return (
            error_codes.FINE
            if end - limit == 8 and load32(limit) == 0
            else error_codes.BAD_RESTARTS
        )
    return error_codes.FINE if restart == end - 4 else error_codes.BAD_RESTARTS


@kernel
def unpack(
    raw: Any, bounds: Any, keys: Any, key_ends: Any, values: Any, stream: Any, done: Any
) -> Any:
    """Rebuild the keys of some blocks, find their values, and write what an id is the hash of.

    `bounds` are where blocks begin and end in `raw`. Keys lose their trailers; `key_ends` has one
    row more than there are records, for where the first begins. A row of `values` is where a value
    begins and ends in `raw`. Keys and their ends have room for as much as the file says to have,
    and so has `stream`, or none at all where no id is wanted. `done` counts records, bytes of keys
    with their trailers and bytes of values of all calls, and bytes of the stream of this one; last
    it says how many bytes values may have.
    """
    at, heap, out = address(raw), address(keys), address(stream)
    proves, most_rows, most_key_bytes = len(stream) > 0, len(key_ends) - 1, len(keys)
    first = done[0]
    row, key_bytes, value_bytes, written = first, done[1], done[2], out
    for block in range(len(bounds) - 1):
        start, end = at + bounds[block], at + bounds[block + 1]
        limit = _records_end(start, end)
        if limit < 0:
            return limit
        p, restart, before = start, limit, 0
        while p < limit:
            shared, unshared, size, p, restart = _record(p, start, limit, restart, end, before)
            if p < 0:
                return p
            before = shared + unshared
            key_bytes += before
            value_bytes += size
            if row >= most_rows or key_bytes > most_key_bytes or value_bytes > done[4]:
                return error_codes.TOO_MANY
            begin, length = key_ends[row], before - TRAILER_BYTES
            last = begin if row == 0 else key_ends[row - 1]
            key = heap + begin
            _build(key, heap + last, begin - last, shared, p, unshared)
            p += unshared
            if load_word(key + length) != _SET:
                return error_codes.WRONG_KIND
            if row and not _is_after(heap + last, begin - last, key, length, shared):
                return error_codes.WRONG_ORDER
            key_ends[row + 1] = begin + length
            values[row - first, 0] = p - at
            values[row - first, 1] = p - at + size
            if proves:
                written = _write_part(written, key, length)
                written = _write_part(written, p, size)
            p += size
            row += 1
        state = _ending(p, start, limit, restart, end)
        if state < 0:
            return state
    done[0], done[1], done[2], done[3] = row, key_bytes, value_bytes, written - out
    return error_codes.FINE


@inlined
def _build(key: int, last: int, length: int, shared: int, rest: int, unshared: int) -> None:
    """Append a key to the previous one, without its trailer, which it may share too."""
    common = min(shared, length)
    copy(key, last, common)
    for i in range(shared - common):
        store8(key + common + i, 1 if i == 0 else 0)
    copy(key + shared, rest, unshared)


@inlined
def _is_after(last: int, last_length: int, key: int, length: int, shared: int) -> Any:
    """Whether a key is greater than the previous one, with which it shares a prefix."""
    common = min(last_length, length)
    for i in range(min(shared, common), common):
        if load8(last + i) != load8(key + i):
            return load8(last + i) < load8(key + i)
    return length > last_length


@inlined
def _write_part(p: int, source: int, size: int) -> int:
    digits = 1
    bound = 10
    while size >= bound:
        digits += 1
        bound *= 10
    rest = size
    for i in range(digits):
        store8(p + digits - 1 - i, _ZERO + rest % 10)
        rest //= 10
    copy(p + digits, source, size)
    store8(p + digits + size, _BAR)
    return p + digits + size + 1


@kernel
def read_index(raw: Any, bounds: Any, handles: Any) -> Any:
    """Decode the blocks of an index: where each block that they name begins, and how long it is.

    `handles` has room for as many as there can be; answers how many there are.
    """
    at, row = address(raw), 0
    for block in range(len(bounds) - 1):
        start, end = at + bounds[block], at + bounds[block + 1]
        limit = _records_end(start, end)
        if limit < 0:
            return limit
        p, restart, before = start, limit, 0
        while p < limit:
            shared, unshared, size, p, restart = _record(p, start, limit, restart, end, before)
            if p < 0:
                return p
            before = shared + unshared
            p += unshared
            place, q = varint(p, p + size)
            length, q = varint(q, p + size) if q > 0 else (0, q)
            p += size
            if q != p or place < 0 or length < 0:
                return error_codes.BAD_HANDLE
            handles[row, 0] = place
            handles[row, 1] = length
            row += 1
        state = _ending(p, start, limit, restart, end)
        if state < 0:
            return state
    return row
