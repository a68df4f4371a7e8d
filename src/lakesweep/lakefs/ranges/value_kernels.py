"""Kernels that decode values: an identity and a protobuf record.

Their input was unpacked before, and every read is checked against the end of its value.
"""

from __future__ import annotations

from typing import Any

from lakesweep.lakefs.ranges import error_codes
from lakesweep.lakefs.ranges.varints import skip, varint
from lakesweep.native import address, copy, inlined, kernel

# The last moments that calendars have a name for.
_FIRST_SECOND = -62135596800
_LAST_SECOND = 253402300799


@inlined
def _part(p: int, end: int) -> tuple[int, int]:
    """A part of an envelope, whose length is signed; returns its begin and end."""
    length, p = varint(p, end)
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
            return error_codes.BAD_ENVELOPE
        identities[row, 0] = begin - at
        identities[row, 1] = stop - at
        begin, stop = _part(stop, end)
        if begin < 0:
            return error_codes.BAD_ENVELOPE
        data[row, 0] = begin - at
        data[row, 1] = stop - at
    return error_codes.FINE


@kernel
def gather(raw: Any, parts: Any, heap: Any, ends: Any) -> None:
    """Copy parts of `raw` consecutively; `ends` has one more row, for the first begin."""
    at, out = address(raw), address(heap)
    filled = 0
    for row in range(len(parts)):
        size = parts[row, 1] - parts[row, 0]
        copy(out + filled, at + parts[row, 0], size)
        filled += size
        ends[row + 1] = filled


@kernel
def decode_entries(
    raw: Any,
    values: Any,
    first: int,
    texts: Any,
    text_ends: Any,
    sums: Any,
    sum_ends: Any,
    names: Any,
    name_ends: Any,
    numbers: Any,
    kinds: Any,
) -> int:
    """Decode the values of objects into columns, from the row `first` on.

    Addresses, checksums and identities are copied one behind the other; the latter two only if they
    have room. The rows of `numbers` are sizes and moments in microseconds. `kinds` are the types of
    addresses, and 4 more where there is a moment.
    """
    at, text, sum_, name = address(raw), address(texts), address(sums), address(names)
    for i in range(len(values)):
        row, end = first + i, at + values[i, 1]
        begin, stop = _part(at + values[i, 0], end)
        if begin < 0:
            return error_codes.BAD_ENVELOPE
        if len(names):
            copy(name + name_ends[row], begin, stop - begin)
            name_ends[row + 1] = name_ends[row] + stop - begin
        p, end = _part(stop, end)
        if p < 0:
            return error_codes.BAD_ENVELOPE
        text_end, sum_end = text_ends[row], sum_ends[row]
        size, seconds, nanoseconds, kind, has_time = 0, 0, 0, 0, 0
        while p < end:
            key, p = varint(p, end)
            if p < 0 or key < 8:
                return error_codes.BAD_RECORD
            if key & 7 == 2:
                length, p = varint(p, end)
                if p < 0 or length < 0 or length > end - p:
                    return error_codes.BAD_RECORD
                if key == 10:  # what comes last counts
                    copy(text + text_ends[row], p, length)
                    text_end = text_ends[row] + length
                elif key == 34 and len(sums):
                    copy(sum_ + sum_ends[row], p, length)
                    sum_end = sum_ends[row] + length
                elif key == 18:
                    has_time = 4
                    seconds, nanoseconds, q = _time(p, p + length, seconds, nanoseconds)
                    if q < 0:
                        return error_codes.BAD_RECORD
                p += length
            elif key == 24:
                size, p = varint(p, end)
            elif key == 48:
                kind, p = varint(p, end)
            else:
                p = skip(p, end, key & 7)
            if p < 0:
                return error_codes.BAD_RECORD
        if kind < 0 or kind > 2 or size < 0:  # a size of 64 bits looks like one below zero
            return error_codes.BAD_SIZE if size < 0 else error_codes.UNKNOWN_TYPE
        text_ends[row + 1], sum_ends[row + 1] = text_end, sum_end
        numbers[0, row] = size
        numbers[1, row] = _micros(seconds, nanoseconds)
        kinds[row] = kind + has_time
    return error_codes.FINE


@inlined
def _time(p: int, end: int, seconds: int, nanoseconds: int) -> tuple[int, int, int]:
    """A time, and a position that is negative if it is invalid."""
    while p < end:
        key, p = varint(p, end)
        if p < 0 or key < 8:
            return seconds, nanoseconds, -1
        if key == 8:
            seconds, p = varint(p, end)
        elif key == 16:
            nanoseconds, p = varint(p, end)
        else:
            p = skip(p, end, key & 7)
        if p < 0:
            return seconds, nanoseconds, -1
    return seconds, nanoseconds, p


@inlined
def _micros(seconds: int, nanoseconds: int) -> int:
    """Microseconds since 1970; none outside the range of calendars."""
    seconds = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
    return seconds * 1_000_000 + min(max(nanoseconds, 0), 999_999_999) // 1000


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
            key, p = varint(p, end)
            if p < 0 or key < 8:
                return error_codes.BAD_RECORD
            if key == 10 or key == 18:
                size, p = varint(p, end)
                if p < 0 or size < 0 or size > end - p:
                    return error_codes.BAD_RECORD
                wanted = min_keys if key == 10 else max_keys
                wanted[row, 0] = p - at
                wanted[row, 1] = p - at + size
                p += size
            elif key == 24 or key == 32:
                number, p = varint(p, end)
                if number < 0:
                    return error_codes.BAD_SIZE
                numbers[row, (key >> 3) - 3] = number
            else:
                p = skip(p, end, key & 7)
            if p < 0:
                return error_codes.BAD_RECORD
    return error_codes.FINE
