"""Kernels over whole blocks: CRC32C checksums and inflated sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.lakefs.ranges.varints import varint
from lakesweep.native import (
    HAS_CRC32C,
    address,
    crc32c_word,
    inlined,
    kernel,
    load8,
    load32,
    load_word,
)

# The codec of blocks that have one; the others have 0.
SNAPPY = 1
# Behind each block stand a byte for its codec and a checksum.
TRAILER_BYTES = 5
# Snappy copies up to 64 bytes for two that are stored.
_LARGEST_RATIO = 32

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_WORD = 0xFFFFFFFF


def _checksum_tables() -> Any:
    """Eight tables, to process eight bytes at a time."""
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
    """The checksum of some bytes, in the form stored after them."""
    at = address(data)
    crc = _crc32c(at + start, at + end, address(tables))
    return ((crc >> 15 | crc << 17 & _WORD) + _MASK_DELTA) & _WORD


@kernel
def first_outside(handles: Any, size: int) -> int:
    """The first block that does not fit into a file of that size, with its trailer, or -1.

    A handle is the offset and the stored length of a block.
    """
    for row in range(len(handles)):
        start, length = handles[row, 0], handles[row, 1]
        if start < 0 or length < 0 or start > size or length > size - start - TRAILER_BYTES:
            return row
    return -1


@kernel
def first_damaged(data: Any, handles: Any, tables: Any) -> int:
    """The first block whose bytes have changed; -1 if none has."""
    at, table = address(data), address(tables)
    for row in range(len(handles)):
        end = at + handles[row, 0] + handles[row, 1] + 1  # with the byte that names the codec
        crc = _crc32c(at + handles[row, 0], end, table)
        if ((crc >> 15 | crc << 17 & _WORD) + _MASK_DELTA) & _WORD != load32(end):
            return row
    return -1


@kernel
def raw_sizes(data: Any, handles: Any, sizes: Any) -> int:
    """The length of each inflated block; and the first with an unknown codec, or -1."""
    at = address(data)
    for row in range(len(handles)):
        start = at + handles[row, 0]
        end = start + handles[row, 1]
        codec = load8(end)
        size, p = handles[row, 1], start
        if codec == SNAPPY:
            size, p = varint(start, end)
        if codec > SNAPPY or p < 0 or size < 0 or size > _LARGEST_RATIO * (end - start):
            return row
        sizes[row] = size
    return -1
