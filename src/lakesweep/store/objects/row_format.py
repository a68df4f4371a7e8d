"""The bytes of a row: a version byte, a checksum, and an object or one part of it.

    whole   1 | crc32 | payload
    part    2 | crc32 | generation | part | parts | piece of the payload

All numbers are big-endian. The checksum covers everything after it and is seeded with the version
byte. Every write has a new generation, so the parts of two writes are never combined into one
object; the part number keeps them in order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from lakesweep.errors import DamagedRowError, NewerRowError
from lakesweep.store.backends.rows import MAX_VALUE_BYTES

_WHOLE = 1
_PART = 2
_PREFIX = struct.Struct(">BI")
_PLACE = struct.Struct(">qHH")
#: The capacity of a row after its header, for a whole object and for a part.
MAX_WHOLE_BYTES = MAX_VALUE_BYTES - _PREFIX.size
MAX_PIECE_BYTES = MAX_WHOLE_BYTES - _PLACE.size
#: The maximum size of an object, in any number of parts.
MAX_OBJECT_BYTES = 2**30


class Frame(NamedTuple):
    """The content of one row: piece number `part` of an object with `parts` pieces."""

    piece: bytes
    part: int = 0
    parts: int = 1
    generation: int | None = None


def encode_whole(payload: bytes) -> bytes:
    """The row of an object that fits in one."""
    return _seal(_WHOLE, payload)


def encode_parts(payload: bytes, generation: int) -> Sequence[bytes]:
    """The rows of an object, in order."""
    pieces = [
        payload[start : start + MAX_PIECE_BYTES]
        for start in range(0, len(payload), MAX_PIECE_BYTES)
    ]
    return [
        _seal(_PART, _PLACE.pack(generation, part, len(pieces)) + piece)
        for part, piece in enumerate(pieces)
    ]


def whole_payload(value: bytes) -> bytes | None:
    """The payload of an object that is entirely in this row; None otherwise."""
    if len(value) < _PREFIX.size:
        return None
    version, checksum = _PREFIX.unpack_from(value)
    body = value[_PREFIX.size :]
    return body if version == _WHOLE and zlib.crc32(body, _WHOLE) == checksum else None


def parse_frame(value: bytes) -> Frame:
    """The content of a row. DamagedRowError if it is not what was written, or NewerRowError."""
    if len(value) < _PREFIX.size:
        raise DamagedRowError("a row is truncated")
    version, checksum = _PREFIX.unpack_from(value)
    if version not in {_WHOLE, _PART}:
        raise NewerRowError(
            f"a row has format {version}, this program understands {_WHOLE} and {_PART}"
        )
    body = value[_PREFIX.size :]
    if zlib.crc32(body, version) != checksum:
        raise DamagedRowError("the checksum of a row does not match its bytes")
    if version == _WHOLE:
        return Frame(body)
    if len(body) < _PLACE.size:
        raise DamagedRowError("a row is truncated")
    generation, part, count = _PLACE.unpack_from(body)
    return Frame(body[_PLACE.size :], part, count, generation)


def _seal(version: int, body: bytes) -> bytes:
    return _PREFIX.pack(version, zlib.crc32(body, version)) + body
