"""Avro records as Python values, for the few files that are rewritten.

A record is a dict by field name. Logical types are left as stored, so that what is read and
written again is the same. Slow compared to `reader`, which reads columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from lakesweep.avro.container import Data, find_blocks, find_codec, read_raw_header
from lakesweep.avro.schema import (
    ArrayType,
    AvroKind,
    AvroSchemaError,
    AvroType,
    LeafType,
    MapType,
    RecordType,
    TypeReference,
    UnionType,
    parse_schema,
)
from lakesweep.errors import DamagedError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

#: A record by the names of its fields.
AvroRecord: TypeAlias = dict[str, Any]
#: Returns the value at an offset, and the offset after it.
Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
#: Appends a value.
Encode: TypeAlias = Callable[[Any, bytearray], None]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_INT_BITS, _LONG_BITS = 31, 63


def read_records(path: str, data: Data, limits: ReadLimits = DEFAULT_LIMITS) -> Iterator[Any]:
    """The records of a file, one after the other; `path` names it in errors."""
    header = read_raw_header(path, data)
    inflate = find_codec(path, header.codec, limits)
    try:
        decode = make_decoder(parse_schema(header.schema).root)
        for table in find_blocks(header, data):
            for first, end, records in table.tolist():
                yield from _block(bytes(inflate(memoryview(data)[first:end])), records, decode)
    except (AvroSchemaError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise DamagedError(path, f"a record cannot be read: {error}") from None
    except RecursionError:
        # A record may hold itself, which columns are read from, but no format writes.
        raise DamagedError(path, "its records are nested too deeply") from None


def _block(block: bytes, records: int, decode: Decode) -> Iterator[Any]:
    _check_count(block, records)
    at = 0
    for _ in range(records):
        value, at = decode(block, at)
        yield value
    if at != len(block):
        raise IndexError("a block is longer or shorter than its records")


def _check_count(data: bytes, count: int) -> None:
    """Refuse counts that only values without bytes could have: they would never end."""
    if count > len(data):
        raise IndexError("a count is larger than what is left")


def make_decoder(node: AvroType) -> Decode:
    """The function that reads values of a type."""
    match node:
        case LeafType():
            return _leaf_decoder(node)
        case TypeReference(target=target):
            return make_decoder(target)
        case RecordType(fields=fields):
            return _record_decoder([(each.name, make_decoder(each.type)) for each in fields])
        case UnionType(branches=branches):
            return _union_decoder([make_decoder(branch) for branch in branches])
        case ArrayType(items=items):
            return _array_decoder(make_decoder(items))
        case MapType(values=values):
            return _map_decoder(make_decoder(values))


def _leaf_decoder(leaf: LeafType) -> Decode:
    if leaf.kind is AvroKind.FIXED:
        size = leaf.size
        return lambda data, at: (_piece(data, at, size), at + size)
    return _LEAF_DECODERS[leaf.kind]


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to ten bytes."""
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    value |= byte << shift
    return (value >> 1) ^ -(value & 1), at + 1


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    return _piece(data, at, size), at + size


def _piece(data: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(data):
        raise IndexError("a length is wrong")
    return data[at : at + size]


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    value, at = _read_bytes(data, at)
    return value.decode(), at


_LEAF_DECODERS: dict[AvroKind, Decode] = {
    AvroKind.NULL: lambda _data, at: (None, at),
    AvroKind.BOOLEAN: lambda data, at: (bool(data[at]), at + 1),
    AvroKind.INT: read_long,
    AvroKind.LONG: read_long,
    AvroKind.ENUM: read_long,
    AvroKind.FLOAT: lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4),
    AvroKind.DOUBLE: lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    AvroKind.BYTES: _read_bytes,
    AvroKind.STRING: _read_text,
}


def _record_decoder(fields: list[tuple[str, Decode]]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[AvroRecord, int]:
        record = {}
        for name, decode_field in fields:
            record[name], at = decode_field(data, at)
        return record, at

    return decode


def _union_decoder(branches: list[Decode]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = read_long(data, at)
        if branch < 0:
            raise IndexError("a union has no such branch")
        return branches[branch](data, at)

    return decode


def _items(data: bytes, at: int) -> tuple[int, int]:
    count, at = read_long(data, at)
    if count < 0:
        return -count, read_long(data, at)[1]
    return count, at


def _array_decoder(decode_item: Decode) -> Decode:
    def decode(data: bytes, at: int) -> tuple[list[Any], int]:
        values = []
        count, at = _items(data, at)
        while count:
            _check_count(data, count)
            for _ in range(count):
                value, at = decode_item(data, at)
                values.append(value)
            count, at = _items(data, at)
        return values, at

    return decode


def _map_decoder(decode_value: Decode) -> Decode:
    def decode_pair(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_text(data, at)
        value, at = decode_value(data, at)
        return (key, value), at

    decode_pairs = _array_decoder(decode_pair)

    def decode(data: bytes, at: int) -> tuple[AvroRecord, int]:
        pairs, at = decode_pairs(data, at)
        return dict(pairs), at

    return decode


def make_encoder(node: AvroType) -> Encode:
    """The function that writes values of a type; a field missing in a record is null."""
    match node:
        case LeafType():
            return _LEAF_ENCODERS[node.kind]
        case TypeReference(target=target):
            return make_encoder(target)
        case RecordType(fields=fields):
            return _record_encoder([(each.name, make_encoder(each.type)) for each in fields])
        case UnionType(branches=branches):
            return _optional_encoder(branches)
        case ArrayType(items=items):
            return _array_encoder(make_encoder(items))
        case MapType(values=values):
            return _map_encoder(make_encoder(values))


def write_long(value: int, out: bytearray, bits: int = _LONG_BITS) -> None:
    """A number of one to ten bytes."""
    if value >> bits not in (0, -1):
        raise ValueError(f"{value} has more than {bits} bits")
    left = (value << 1) ^ (value >> bits)
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)


def _write_bytes(value: bytes, out: bytearray) -> None:
    write_long(len(value), out)
    out += value


_LEAF_ENCODERS: dict[AvroKind, Encode] = {
    AvroKind.NULL: lambda _value, _out: None,
    AvroKind.BOOLEAN: lambda value, out: out.append(int(value)),
    AvroKind.INT: lambda value, out: write_long(value, out, _INT_BITS),
    AvroKind.LONG: write_long,
    AvroKind.ENUM: write_long,
    AvroKind.FLOAT: lambda value, out: out.extend(_FLOAT.pack(value)),
    AvroKind.DOUBLE: lambda value, out: out.extend(_DOUBLE.pack(value)),
    AvroKind.BYTES: _write_bytes,
    AvroKind.STRING: lambda value, out: _write_bytes(value.encode(), out),
    AvroKind.FIXED: lambda value, out: out.extend(value),
}


def _record_encoder(fields: list[tuple[str, Encode]]) -> Encode:
    def encode(record: AvroRecord, out: bytearray) -> None:
        for name, encode_field in fields:
            encode_field(record.get(name), out)

    return encode


def _optional_encoder(branches: tuple[AvroType, ...]) -> Encode:
    null = LeafType(AvroKind.NULL)
    if len(branches) != 2 or null not in branches:
        raise AvroSchemaError("only unions of null and one type can be written")
    at = 1 - branches.index(null)
    encode_value, absent, present = make_encoder(branches[at]), bytes([2 - 2 * at]), bytes([2 * at])

    def encode(value: Any, out: bytearray) -> None:
        if value is None:
            out += absent
        else:
            out += present
            encode_value(value, out)

    return encode


def _array_encoder(encode_item: Encode) -> Encode:
    def encode(values: list[Any], out: bytearray) -> None:
        if values:
            write_long(len(values), out)
            for value in values:
                encode_item(value, out)
        out.append(0)

    return encode


def _map_encoder(encode_value: Encode) -> Encode:
    def encode_pair(pair: tuple[str, Any], out: bytearray) -> None:
        _write_bytes(pair[0].encode(), out)
        encode_value(pair[1], out)

    encode_pairs = _array_encoder(encode_pair)
    return lambda values, out: encode_pairs(list(values.items()), out)
