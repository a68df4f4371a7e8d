"""The registry of object types: type names, and how values are encoded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lakesweep.errors import DamagedRowError, UsageError
from lakesweep.store.objects.links import pack, unpack

_NAME = re.compile(r"[a-z][a-z0-9-]{1,63}")


@dataclass(frozen=True, slots=True)
class UnknownObject:
    """A value of a type that this program does not know, kept as it was written."""

    type: str
    payload: bytes


class ObjectTypes:
    """Which struct stands behind which name. Names are what rows hold, so they never change."""

    def __init__(self, types: Mapping[str, type[msgspec.Struct]]) -> None:
        for name, kind in types.items():
            _check(name, kind)
        self._names = {kind: name for name, kind in types.items()}
        if len(self._names) != len(types):
            raise ValueError("one struct cannot have two names")
        self._decoders = {
            name: msgspec.msgpack.Decoder(kind, ext_hook=unpack) for name, kind in types.items()
        }
        self._encoder = msgspec.msgpack.Encoder(enc_hook=pack)

    @property
    def names(self) -> frozenset[str]:
        """All names that stand for a struct."""
        return frozenset(self._decoders)

    def encode(self, value: msgspec.Struct | UnknownObject) -> tuple[str, bytes]:
        """The name of the type, and the bytes; TypeError if nobody could read them again.

        UsageError for text that is no Unicode, as arguments of a command may be.
        """
        if isinstance(value, UnknownObject):
            return value.type, value.payload
        name = self._names.get(type(value))
        if name is None:
            raise TypeError(f"{type(value).__qualname__} is not a registered type")
        try:
            payload = self._encoder.encode(value)
        except UnicodeEncodeError as error:
            raise UsageError(
                f"a {name} cannot be stored: {error.object[:80]!r} is no Unicode text",
                hint="write it in UTF-8",
            ) from error
        try:
            # Structs are not checked when they are made: a number where text belongs would be
            # written without complaint, and lost.
            self._decoders[name].decode(payload)
        except msgspec.DecodeError as error:
            raise TypeError(f"a {name} does not have the types that it says: {error}") from error
        return name, payload

    def decode(self, name: str, payload: bytes) -> Any:
        """The value; an UnknownObject if nobody registered the name."""
        decoder = self._decoders.get(name)
        if decoder is None:
            return UnknownObject(name, payload)
        try:
            return decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedRowError(f"not a {name}: {error}") from error


def _check(name: str, kind: type[msgspec.Struct]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name for a type: small letters, digits and dashes")
    if not kind.__struct_config__.frozen:
        raise ValueError(f"{kind.__qualname__} is not frozen, so it cannot be shared")
