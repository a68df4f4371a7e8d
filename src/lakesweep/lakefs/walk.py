"""The kernels: checksums of blocks, the records inside them, and what these say.

A position is an address. Every read is checked against the end of its block, every write against
room that was measured before, and every loop takes at least one byte a turn, so that no input can
make it crash or run for ever. Where a function answers with a position, a negative one is the code
of what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.lakefs import states
from lakesweep.native import (
    HAS_CRC32C,
    address,
    copy,
    crc32c_word,
    inlined,
    kernel,
    load8,
    load32,
    load_word,
    store8,
)

# The codec of blocks that have one; the others have 0.
SNAPPY = 1
# Snappy copies up to 64 bytes for two that are stored.
_LARGEST_RATIO = 32

# An internal key ends in these eight bytes: a plain value that was set, of sequence number 0.
_TRAILER_BYTES = 8
_SET = np.uint64(1)

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_WORD = 0xFFFFFFFF
_BAR = ord("|")
_ZERO = ord("0")

# The last moments that calendars have a name for.
_FIRST_SECOND = -62135596800
_LAST_SECOND = 253402300799


def _checksum_tables() -> Any:
    """Eight tables, so that eight bytes are taken at a time."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, 8):
        tables[row] = tables[row - 1] >> 8 ^ tables[0][tables[row - 1] & 0xFF]
    tables.flags.writeable = False
    return tables


TABLES = _checksum_tables()


@inlined
def _crc32c_by_instruction(p: int, end: int, tables: int) -> Any:
    crc = np.uint64(_WORD)
    while end - p >= 8:
        crc = crc32c_word(crc, load_word(p))
        p += 8
    return _crc32c_rest(p, end, np.int64(crc), tables)


@inlined
def _crc32c_by_tables(p: int, end: int, tables: int) -> Any:
    crc = _WORD
    while end - p >= 8:
        low = load32(p) ^ crc
        high = load32(p + 4)
        crc = (
            load32(tables + 4 * (1792 + (low & 255)))
            ^ load32(tables + 4 * (1536 + (low >> 8 & 255)))
            ^ load32(tables + 4 * (1280 + (low >> 16 & 255)))
            ^ load32(tables + 4 * (1024 + (low >> 24)))
            ^ load32(tables + 4 * (768 + (high & 255)))
            ^ load32(tables + 4 * (512 + (high >> 8 & 255)))
            ^ load32(tables + 4 * (256 + (high >> 16 & 255)))
            ^ load32(tables + 4 * (high >> 24))
        )
        p += 8
    return _crc32c_rest(p, end, crc, tables)


@inlined
def _crc32c_rest(p: int, end: int, crc: Any, tables: int) -> Any:
    while p < end:
        crc = load32(tables + 4 * ((crc ^ load8(p)) & 255)) ^ crc >> 8
        p += 1
    return crc ^ _WORD


_crc32c = _crc32c_by_instruction if HAS_CRC32C else _crc32c_by_tables


@kernel
def checksum_by_tables(data: Any, tables: Any) -> Any:
    """The checksum of bytes, on any machine."""
    at = address(data)
    return _crc32c_by_tables(at, at + len(data), address(tables))


@kernel
def masked_checksum(data: Any, start: int, end: int, tables: Any) -> Any:
    """The checksum of some bytes, as it is stored behind them."""
    at = address(data)
    crc = _crc32c(at + start, at + end, address(tables))
    return ((crc >> 15 | crc << 17 & _WORD) + _MASK_DELTA) & _WORD


@kernel
def first_damaged(data: Any, handles: Any, tables: Any) -> int:
    """The first of the blocks whose bytes are not those that were written; -1 if all are."""
    at, table = address(data), address(tables)
    for row in range(len(handles)):
        end = at + handles[row, 0] + handles[row, 1] + 1  # with the byte that names the codec
        crc = _crc32c(at + handles[row, 0], end, table)
        if ((crc >> 15 | crc << 17 & _WORD) + _MASK_DELTA) & _WORD != load32(end):
            return row
    return -1


@kernel
def raw_sizes(data: Any, handles: Any, sizes: Any) -> int:
    """How long each block is once it is inflated; the first of a codec that is not known, or -1."""
    at = address(data)
    for row in range(len(handles)):
        start = at + handles[row, 0]
        end = start + handles[row, 1]
        codec = load8(end)
        size, p = handles[row, 1], start
        if codec == SNAPPY:
            size, p = _varint(start, end)
        if codec > SNAPPY or p < 0 or size < 0 or size > _LARGEST_RATIO * (end - start):
            return row
        sizes[row] = size
    return -1


@inlined
def _varint(p: int, end: int) -> tuple[int, int]:
    """Read one number of up to 64 bits; answers (number, position after it)."""
    if p < end:
        byte = load8(p)
        if byte < 128:
            return byte, p + 1
    return _long_varint(p, end)


@kernel
def _long_varint(p: int, end: int) -> tuple[Any, Any]:
    value = np.int64(0)
    for i in range(10):
        if p + i >= end:
            break
        byte = load8(p + i)
        value |= np.int64(byte & 127) << np.int64(7 * i)
        if byte < 128:
            return value, p + i + 1
    return np.int64(0), np.int64(-1)


@inlined
def _records_end(start: int, end: int) -> Any:
    """Where the records of a block end, and its restart points begin."""
    if end - start < 8:
        return states.SHORT_BLOCK
    restarts = load32(end - 4)
    if restarts < 1 or restarts > (end - start) // 4 - 1:
        return states.SHORT_BLOCK
    return end - 4 * (restarts + 1)


@kernel
def measure(raw: Any, bounds: Any, totals: Any) -> Any:
    """Check the frame of all blocks, and add up what is in them.

    `bounds` are where blocks begin and end in `raw`. The totals are records, bytes of keys, bytes
    of values, and the bytes of the longest key.
    """
    at = address(raw)
    for block in range(len(bounds) - 1):
        state = _measure_block(at + bounds[block], at + bounds[block + 1], totals)
        if state < 0:
            return state
    return states.FINE


@inlined
def _measure_block(start: int, end: int, totals: Any) -> Any:
    limit = _records_end(start, end)
    if limit < 0:
        return limit
    p, restart, before = start, limit, 0
    while p < limit:
        if restart < end - 4 and load32(restart) == p - start:
            before = 0  # so that nothing may be shared
            restart += 4
        elif p == start:
            return states.BAD_RESTARTS
        shared, p = _varint(p, limit)
        unshared, p = _varint(p, limit) if p > 0 else (0, p)
        size, p = _varint(p, limit) if p > 0 else (0, p)
        if p < 0 or unshared < 0 or size < 0 or unshared > limit - p or size > limit - p - unshared:
            return states.PAST_END
        if shared < 0 or shared > before:
            return states.NO_SUCH_PREFIX
        before = shared + unshared
        if before < _TRAILER_BYTES:
            return states.SHORT_KEY
        p += unshared + size
        totals[0] += 1
        totals[1] += before
        totals[2] += size
        totals[3] = max(totals[3], before)
        if totals[1] > 2**31 - 1:
            return states.TOO_LARGE
    if p == start:  # an empty block has one restart point all the same
        return states.FINE if end - limit == 8 and load32(limit) == 0 else states.BAD_RESTARTS
    return states.FINE if restart == end - 4 else states.BAD_RESTARTS


@kernel
def unpack(raw: Any, bounds: Any, scratch: Any, keys: Any, key_ends: Any, values: Any) -> int:
    """Rebuild the keys of blocks that were measured, and find their values.

    `scratch` has room for the longest key. Keys lose their trailers; `key_ends` has one row more
    than there are records, for where the first begins. A row of `values` is where a value begins
    and ends in `raw`.
    """
    at, heap, last = address(raw), address(keys), address(scratch)
    row = 0
    for block in range(len(bounds) - 1):
        p = at + bounds[block]
        limit = _records_end(p, at + bounds[block + 1])
        while p < limit:
            shared, p = _varint(p, limit)
            unshared, p = _varint(p, limit)
            size, p = _varint(p, limit)
            copy(last + shared, p, unshared)
            p += unshared
            length = shared + unshared - _TRAILER_BYTES
            if load_word(last + length) != _SET:
                return states.WRONG_KIND
            begin = key_ends[row]
            if row and not _is_after(heap, key_ends[row - 1], begin, last, length, shared):
                return states.WRONG_ORDER
            copy(heap + begin, last, length)
            key_ends[row + 1] = begin + length
            values[row, 0] = p - at
            p += size
            values[row, 1] = p - at
            row += 1
    return states.FINE


@kernel
def find_values(raw: Any, bounds: Any, values: Any) -> None:
    """Find the values of blocks that were measured, whatever their keys."""
    at = address(raw)
    row = 0
    for block in range(len(bounds) - 1):
        p = at + bounds[block]
        limit = _records_end(p, at + bounds[block + 1])
        while p < limit:
            _, p = _varint(p, limit)
            unshared, p = _varint(p, limit)
            size, p = _varint(p, limit)
            p += unshared
            values[row, 0] = p - at
            p += size
            values[row, 1] = p - at
            row += 1


@inlined
def _is_after(heap: int, begin: int, end: int, key: int, length: int, shared: int) -> Any:
    """Whether a key is greater than the one before it, of which it shares so many bytes."""
    before = heap + begin
    common = min(end - begin, length)
    for i in range(min(shared, common), common):
        if load8(before + i) != load8(key + i):
            return load8(before + i) < load8(key + i)
    return length > end - begin


@kernel
def write_stream(
    raw: Any, keys: Any, key_ends: Any, values: Any, first: int, last: int, stream: Any
) -> Any:
    """Write what an id is the hash of: some records, each with its lengths; answers the size."""
    at, heap, out = address(raw), address(keys), address(stream)
    p = out
    for row in range(first, last):
        begin, end = key_ends[row], key_ends[row + 1]
        p = _write_part(p, heap + begin, end - begin)
        p = _write_part(p, at + values[row, 0], values[row, 1] - values[row, 0])
    return p - out


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


@inlined
def _part(p: int, end: int) -> tuple[int, int]:
    """A part of an envelope: its length has a sign; answers (where it begins, where it ends)."""
    length, p = _varint(p, end)
    if p < 0 or length & 1 or length < 0 or length >> 1 > end - p:
        return -1, -1
    return p, p + (length >> 1)


@kernel
def open_envelopes(raw: Any, values: Any, identities: Any, data: Any) -> int:
    """Find the two parts of each value: its identity, and its data."""
    at = address(raw)
    for row in range(len(values)):
        end = at + values[row, 1]
        begin, stop = _part(at + values[row, 0], end)
        if begin < 0:
            return states.BAD_ENVELOPE
        identities[row, 0] = begin - at
        identities[row, 1] = stop - at
        begin, stop = _part(stop, end)
        if begin < 0:
            return states.BAD_ENVELOPE
        data[row, 0] = begin - at
        data[row, 1] = stop - at
    return states.FINE


@kernel
def gather(raw: Any, parts: Any, heap: Any, ends: Any) -> None:
    """Copy parts of `raw` one behind the other; `ends` has one row more, for the first begin."""
    at, out = address(raw), address(heap)
    filled = 0
    for row in range(len(parts)):
        size = parts[row, 1] - parts[row, 0]
        copy(out + filled, at + parts[row, 0], size)
        filled += size
        ends[row + 1] = filled


@inlined
def _skip(p: int, end: int, wire: int) -> int:
    """Step over a field's value of a wire type that is not wanted."""
    if wire == 0:
        _, p = _varint(p, end)
        return p
    if wire == 2:
        size, p = _varint(p, end)
        return p + size if p > 0 and 0 <= size <= end - p else -1
    size = 8 if wire == 1 else 4
    return p + size if (wire == 1 or wire == 5) and size <= end - p else -1


@kernel
def decode_entries(
    raw: Any, data: Any, addresses: Any, checksums: Any, numbers: Any, has_time: Any
) -> int:
    """Decode the records of objects.

    `addresses` and `checksums` get where they begin and end in `raw`. The rows of `numbers` are
    size, seconds, nanoseconds and the type of the address.
    """
    at = address(raw)
    for row in range(len(data)):
        p, end = at + data[row, 0], at + data[row, 1]
        addresses[row, 0] = addresses[row, 1] = 0
        checksums[row, 0] = checksums[row, 1] = 0
        numbers[0, row] = numbers[1, row] = numbers[2, row] = numbers[3, row] = 0
        has_time[row] = 0
        while p < end:
            key, p = _varint(p, end)
            if p < 0 or key < 8:
                return states.BAD_RECORD
            wire = key & 7
            if wire == 2:
                size, p = _varint(p, end)
                if p < 0 or size < 0 or size > end - p:
                    return states.BAD_RECORD
                field = key >> 3
                if field == 1:
                    addresses[row, 0] = p - at
                    addresses[row, 1] = p - at + size
                elif field == 4:
                    checksums[row, 0] = p - at
                    checksums[row, 1] = p - at + size
                elif field == 2:
                    has_time[row] = 1
                    if not _decode_time(p, p + size, row, numbers):
                        return states.BAD_RECORD
                p += size
            elif key == 24 or key == 48:  # size, type
                number, p = _varint(p, end)
                numbers[0 if key == 24 else 3, row] = number
            else:
                p = _skip(p, end, wire)
            if p < 0:
                return states.BAD_RECORD
        if numbers[3, row] < 0 or numbers[3, row] > 2:
            return states.UNKNOWN_TYPE
    return states.FINE


@inlined
def _decode_time(p: int, end: int, row: int, numbers: Any) -> bool:
    while p < end:
        key, p = _varint(p, end)
        if p < 0 or key < 8:
            return False
        if key == 8 or key == 16:  # seconds, nanoseconds
            number, p = _varint(p, end)
            numbers[key >> 3, row] = number
        else:
            p = _skip(p, end, key & 7)
        if p < 0:
            return False
    return True


@kernel
def microseconds(numbers: Any, out: Any) -> None:
    """Moments of entries, none before or after what calendars know."""
    for row in range(len(out)):
        seconds = min(max(numbers[1, row], _FIRST_SECOND), _LAST_SECOND)
        nanoseconds = min(max(numbers[2, row], 0), 999_999_999)
        out[row] = seconds * 1_000_000 + nanoseconds // 1000


@kernel
def decode_ranges(raw: Any, data: Any, min_keys: Any, max_keys: Any, numbers: Any) -> int:
    """Decode the records of ranges; the columns of `numbers` are estimated size and count."""
    at = address(raw)
    for row in range(len(data)):
        p, end = at + data[row, 0], at + data[row, 1]
        min_keys[row, :] = 0
        max_keys[row, :] = 0
        numbers[row, :] = 0
        while p < end:
            key, p = _varint(p, end)
            if p < 0 or key < 8:
                return states.BAD_RECORD
            if key == 10 or key == 18:
                size, p = _varint(p, end)
                if p < 0 or size < 0 or size > end - p:
                    return states.BAD_RECORD
                wanted = min_keys if key == 10 else max_keys
                wanted[row, 0] = p - at
                wanted[row, 1] = p - at + size
                p += size
            elif key == 24 or key == 32:
                number, p = _varint(p, end)
                numbers[row, (key >> 3) - 3] = number
            else:
                p = _skip(p, end, key & 7)
            if p < 0:
                return states.BAD_RECORD
    return states.FINE


@kernel
def read_handles(raw: Any, values: Any, handles: Any) -> int:
    """Decode the values of an index: where a block begins, and how long it is."""
    at = address(raw)
    for row in range(len(handles)):
        end = at + values[row, 1]
        start, p = _varint(at + values[row, 0], end)
        size, p = _varint(p, end) if p > 0 else (0, p)
        if p != end or start < 0 or size < 0:
            return states.BAD_HANDLE
        handles[row, 0] = start
        handles[row, 1] = size
    return states.FINE
