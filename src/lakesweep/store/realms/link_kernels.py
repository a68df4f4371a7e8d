"""The numba kernel that finds links in the bytes of many objects.

It understands what almost every object looks like: one row, with a matching checksum, whose
msgpack contains nothing but plain values and links. Everything else it leaves to `link_scan`, which
also says what is wrong with it. Every read is checked against the end of its object, and every
iteration consumes at least one byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load_word

_WHOLE = 1
_HEADER_BYTES = 5
_LINK = 1
_LINK_BYTES = 8
_FAILED = -1
_BYTE = np.uint64(255)
_ALL = np.uint32(0xFFFFFFFF)


def _crc_tables() -> Any:
    """The tables of CRC-32 for eight bytes at a time."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        word = byte
        for _ in range(8):
            word = (word >> 1) ^ (0xEDB88320 if word & 1 else 0)
        tables[0, byte] = word
    for i in range(1, 8):
        before = tables[i - 1]
        tables[i] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(255)]
    return tables


#: A tag of msgpack that means nothing, and that of an extension of eight bytes.
_NEVER_USED = 0xC1
_EIGHT_BYTES = 0xD7
#: The first byte of the largest id.
_SIGN = 0x7F


def _tag_tables() -> Any:
    """What follows each tag of msgpack.

    Its bytes, or -1 for what the kernel leaves alone; the width of the length before them; the
    values nested in it; and how many values each unit of the length stands for, if not a byte.
    """
    sizes, widths, items, nested = np.zeros((4, 256), np.int64)
    items[0x80:0x90] = 2 * np.arange(16)  # short maps
    items[0x90:0xA0] = np.arange(16)  # short lists
    sizes[0xA0:0xC0] = np.arange(32)  # short text
    sizes[_NEVER_USED] = -1
    widths[0xC4:0xC7] = widths[0xD9:0xDC] = (1, 2, 4)  # bytes, text
    sizes[0xC7:0xCA] = sizes[0xD4:0xD9] = -1  # extensions
    sizes[0xCA:0xD4] = (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)  # numbers
    sizes[_EIGHT_BYTES] = 1 + _LINK_BYTES
    widths[0xDC:0xE0] = (2, 4, 2, 4)  # long lists, long maps
    nested[0xDC:0xE0] = (1, 1, 2, 2)
    return sizes, widths, items, nested


_SIZE, _WIDTH, _ITEMS, _NESTED = _tag_tables()
_CRC = _crc_tables()
#: The state after the version byte of the format, which seeds the checksum of a whole object.
_SEED = np.uint32(_WHOLE) ^ _ALL


@inlined
def _slice(word: Any, place: int) -> Any:
    return _CRC[7 - place, (word >> np.uint64(8 * place)) & _BYTE]


@inlined
def _crc32(p: int, end: int) -> Any:
    crc = _SEED
    while p + 8 <= end:
        word = load_word(p) ^ np.uint64(crc)
        crc = _slice(word, 0) ^ _slice(word, 1) ^ _slice(word, 2) ^ _slice(word, 3)
        crc ^= _slice(word, 4) ^ _slice(word, 5) ^ _slice(word, 6) ^ _slice(word, 7)
        p += 8
    while p < end:
        crc = (crc >> np.uint32(8)) ^ _CRC[0, (crc ^ np.uint32(load8(p))) & np.uint32(255)]
        p += 1
    return crc ^ _ALL


@inlined
def _big_endian(p: int, size: int) -> int:
    number = 0
    for i in range(size):
        number = (number << 8) | load8(p + i)
    return number


@inlined
def _is_sound(p: int, end: int) -> bool:
    """Whether a row holds a whole object, as it was written."""
    if end - p < _HEADER_BYTES or load8(p) != _WHOLE:
        return False
    return bool(np.int64(_crc32(p + _HEADER_BYTES, end)) == _big_endian(p + 1, 4))


@inlined
def _walk(p: int, end: int, links: Any, count: int) -> int:
    """Write the links of one msgpack value; returns how many there are then, or _FAILED."""
    items = 1
    while items > 0:
        tag = load8(p) if p < end else _NEVER_USED
        p += 1
        size, width = _SIZE[tag], _WIDTH[tag]
        if size < 0 or end - p < width:
            return _FAILED
        length, nested = _big_endian(p, width), _NESTED[tag]
        size += width if nested else width + length
        if max(size, length) > end - p:
            return _FAILED
        if tag == _EIGHT_BYTES:
            if load8(p) != _LINK or load8(p + 1) > _SIGN:
                return _FAILED
            links[count] = _big_endian(p + 1, _LINK_BYTES)
            count += 1
        items += _ITEMS[tag] + length * nested - 1
        p += size
    return count if p == end else _FAILED


@kernel
def find_links(data: Any, bounds: Any, links: Any, is_read: Any, framed: bool) -> int:
    """Write the links of all objects of a buffer; returns their number.

    Object i lies between bounds i and i + 1, as a row if `framed`. `is_read` says which could be
    read. A link takes ten bytes, so a tenth of the buffer is enough room for all of them.
    """
    base = address(data)
    count = 0
    for i in range(len(bounds) - 1):
        start, end = base + bounds[i], base + bounds[i + 1]
        is_read[i] = False
        if framed and not _is_sound(start, end):
            continue
        found = _walk(start + _HEADER_BYTES if framed else start, end, links, count)
        if found != _FAILED:
            is_read[i] = True
            count = found
    return count
