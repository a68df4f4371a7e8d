"""Decode and encode binary rows: partitions, keys and statistics in manifests.

Layout: the number of fields (4 bytes, big-endian); a header byte and one null bit per field,
padded to 8 bytes; 8 bytes per field (little-endian); then the variable-length part, padded to
8 bytes per value, which the fields point into by offset and length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeAlias

from lakesweep.errors import DamagedError
from lakesweep.paimon.model.data_types import (
    BYTES,
    TEXTS,
    TIMESTAMPS,
    DataType,
    DataTypeRoot,
    Timestamp,
)

#: A field as Paimon keeps it: a DATE is a number of days since 1970, a TIME one of milliseconds.
Value: TypeAlias = bool | int | float | Decimal | str | bytes | Timestamp | None

_PREFIX = struct.Struct(">i")
_LONG = struct.Struct("<q")
_HEADER_BITS = 8
_SLOT_BYTES = 8
_LONGEST_INLINE = 7
_INLINE_MARK = 0x80
_LARGE_DECIMAL_BYTES = 16

_FIXED = {
    DataTypeRoot.BOOLEAN: struct.Struct("<?"),
    DataTypeRoot.TINYINT: struct.Struct("<b"),
    DataTypeRoot.SMALLINT: struct.Struct("<h"),
    DataTypeRoot.INT: struct.Struct("<i"),
    DataTypeRoot.BIGINT: _LONG,
    DataTypeRoot.FLOAT: struct.Struct("<f"),
    DataTypeRoot.DOUBLE: struct.Struct("<d"),
    DataTypeRoot.DATE: struct.Struct("<i"),
    DataTypeRoot.TIME: struct.Struct("<i"),
}


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Value, ...]:
    """The fields of a row; DamagedError where the bytes are not a row of these types."""
    try:
        _check_arity(data, types)
        row = memoryview(data)[_PREFIX.size :]
        return tuple(_decode_field(row, len(types), at, kind) for at, kind in enumerate(types))
    except (struct.error, ValueError, IndexError) as error:
        raise DamagedError(f"the row {bytes(data).hex()}", str(error)) from None


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """The row of these fields, as Paimon's own writers lay it out."""
    writer = _Writer(len(types))
    for at, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            writer.set_null(at)
        else:
            _encode_field(writer, at, value, kind)
    return writer.finish()


def _check_arity(data: bytes, types: Sequence[DataType]) -> None:
    arity = _PREFIX.unpack_from(data)[0]
    if arity != len(types):
        raise ValueError(f"has {arity} fields, not {len(types)}")


def _null_bytes(arity: int) -> int:
    return (arity + 63 + _HEADER_BITS) // 64 * 8


def _slot_at(arity: int, at: int) -> int:
    return _null_bytes(arity) + at * _SLOT_BYTES


def _decode_field(row: memoryview, arity: int, at: int, kind: DataType) -> Value:
    bit = at + _HEADER_BITS
    if row[bit // 8] >> (bit % 8) & 1:
        return None
    slot = row[_slot_at(arity, at) :][:_SLOT_BYTES]
    if len(slot) < _SLOT_BYTES:
        raise ValueError("ends too early")
    fixed = _FIXED.get(kind.root)
    if fixed is not None:
        value: Value = fixed.unpack_from(slot)[0]
        return value
    return _DECODERS[kind.root](row, slot, kind)


def _decode_text(row: memoryview, slot: memoryview, kind: DataType) -> str:
    return _decode_bytes(row, slot, kind).decode()


def _decode_bytes(row: memoryview, slot: memoryview, _kind: DataType) -> bytes:
    if slot[-1] & _INLINE_MARK:
        return bytes(slot[: slot[-1] & ~_INLINE_MARK])
    offset, length = _place(slot)
    return _piece(row, offset, length)


def _decode_decimal(row: memoryview, slot: memoryview, kind: DataType) -> Decimal:
    if kind.is_compact:
        unscaled = _LONG.unpack(slot)[0]
    else:
        unscaled = int.from_bytes(_piece(row, *_place(slot)), "big", signed=True)
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    return Decimal((sign, digits, -kind.scale))


def _decode_timestamp(row: memoryview, slot: memoryview, kind: DataType) -> Timestamp:
    if kind.is_compact:
        return Timestamp(_LONG.unpack(slot)[0])
    offset, nanos = _place(slot)
    return Timestamp(_LONG.unpack(_piece(row, offset, _LONG.size))[0], nanos)


def _place(slot: memoryview) -> tuple[int, int]:
    packed = _LONG.unpack(slot)[0]
    return packed >> 32, packed & 0xFFFFFFFF


def _piece(row: memoryview, offset: int, length: int) -> bytes:
    if offset < 0 or offset + length > len(row):
        raise ValueError("points behind its end")
    return bytes(row[offset : offset + length])


_DECODERS: dict[DataTypeRoot, Callable[[memoryview, memoryview, DataType], Value]] = {
    DataTypeRoot.DECIMAL: _decode_decimal,
    **dict.fromkeys(TEXTS, _decode_text),
    **dict.fromkeys(BYTES, _decode_bytes),
    **dict.fromkeys(TIMESTAMPS, _decode_timestamp),
}


class _Writer:
    """A row that is being made: the part of fixed size, and what follows it."""

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._fixed = bytearray(_slot_at(arity, arity))
        self._rest = bytearray()

    def set_null(self, at: int) -> None:
        bit = at + _HEADER_BITS
        self._fixed[bit // 8] |= 1 << (bit % 8)

    def set_slot(self, at: int, data: bytes) -> None:
        start = _slot_at(self._arity, at)
        self._fixed[start : start + len(data)] = data

    def append(self, at: int, data: bytes, size: int, *, room: int = 0) -> None:
        """Put data behind the fixed part; `size` is what the field says of it."""
        offset = len(self._fixed) + len(self._rest)
        self.set_slot(at, _LONG.pack(offset << 32 | size))
        room = max(room, -(-len(data) // _SLOT_BYTES) * _SLOT_BYTES)
        self._rest += data.ljust(room, b"\0")

    def finish(self) -> bytes:
        return _PREFIX.pack(self._arity) + bytes(self._fixed) + bytes(self._rest)


def _encode_field(writer: _Writer, at: int, value: Value, kind: DataType) -> None:
    fixed = _FIXED.get(kind.root)
    if fixed is not None:
        writer.set_slot(at, fixed.pack(value))
    elif isinstance(value, Timestamp):
        _encode_timestamp(writer, at, value, kind)
    elif isinstance(value, Decimal):
        _encode_decimal(writer, at, value, kind)
    else:
        assert isinstance(value, str | bytes)
        _encode_bytes(writer, at, value.encode() if isinstance(value, str) else value)


def _encode_bytes(writer: _Writer, at: int, data: bytes) -> None:
    if len(data) <= _LONGEST_INLINE:
        writer.set_slot(at, data.ljust(_LONGEST_INLINE, b"\0") + bytes([_INLINE_MARK | len(data)]))
    else:
        writer.append(at, data, len(data))


def _encode_timestamp(writer: _Writer, at: int, value: Timestamp, kind: DataType) -> None:
    millis = _LONG.pack(value.millis)
    if kind.is_compact:
        writer.set_slot(at, millis)
    else:
        writer.append(at, millis, value.nanos)


def _encode_decimal(writer: _Writer, at: int, value: Decimal, kind: DataType) -> None:
    unscaled = _unscaled(value, kind.scale)
    if kind.is_compact:
        writer.set_slot(at, _LONG.pack(unscaled))
        return
    size = (unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1
    data = unscaled.to_bytes(size, "big", signed=True)
    writer.append(at, data, len(data), room=_LARGE_DECIMAL_BYTES)


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number
