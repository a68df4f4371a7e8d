"""Codecs for the values of an index."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from lakesweep.errors import DamagedError
from lakesweep.store.objects.links import Link, ValueKind, pack, unpack

V = TypeVar("V")


class Codec(Protocol[V]):
    """Converts values to bytes and back.

    Equal values give equal bytes. Every byte string is a valid value, even the empty one: the index
    itself records removed keys, beside the values. `values` says how links are found in these
    bytes.
    """

    values: ValueKind

    def encode(self, value: V, /) -> bytes: ...

    def decode(self, data: bytes, /) -> V:
        """The value of these bytes; DamagedError if they are not valid."""
        ...


class _Bytes:
    values = ValueKind.OPAQUE

    def encode(self, value: bytes, /) -> bytes:
        return value

    def decode(self, data: bytes, /) -> bytes:
        return data


class _Links:
    values = ValueKind.LINKS

    def encode(self, value: int, /) -> bytes:
        return value.to_bytes(8, "big")

    def decode(self, data: bytes, /) -> Link:
        if len(data) != 8:
            raise DamagedError("index value", f"an id has 8 bytes, not {len(data)}")
        return Link(int.from_bytes(data, "big"))


class Packed(Generic[V]):
    """Values of one type as msgpack."""

    values = ValueKind.PACKED

    def __init__(self, type_: type[V]) -> None:
        self._encoder = msgspec.msgpack.Encoder(order="deterministic", enc_hook=pack)
        self._decoder = msgspec.msgpack.Decoder(type_, ext_hook=unpack)

    def encode(self, value: V, /) -> bytes:
        return self._encoder.encode(value)

    def decode(self, data: bytes, /) -> V:
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise DamagedError("index value", str(error)) from error


#: Byte strings, unchanged.
BYTES: Codec[bytes] = _Bytes()
#: Ids of objects, which the index keeps alive.
LINKS: Codec[Link] = _Links()
