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
    """A value of a type that this program does not know, kept as written."""

    type: str
    payload: bytes


class ObjectTypes:
    """The structs behind type names. Rows contain these names, so they never change."""

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
        """All registered names."""
        return frozenset(self._decoders)

    def encode(self, value: msgspec.Struct | UnknownObject) -> tuple[str, bytes]:
        """The type name and the bytes; TypeError if they could not be read again.

        UsageError for text that is not Unicode, as command-line arguments may be.
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
                f"a {name} cannot be stored: {error.object[:80]!r} is not Unicode text",
                hint="write it in UTF-8",
            ) from error
        try:
            # Structs are not validated when created: a number where text belongs would be written
            # without an error, and be unreadable.
            self._decoders[name].decode(payload)
        except msgspec.DecodeError as error:
            raise TypeError(f"a {name} does not match its declared types: {error}") from error
        return name, payload

    def decode(self, name: str, payload: bytes) -> Any:
        """The value; an UnknownObject if the name is not registered."""
        decoder = self._decoders.get(name)
        if decoder is None:
            return UnknownObject(name, payload)
        try:
            return decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamagedRowError(f"not a {name}: {error}") from error


def _check(name: str, kind: type[msgspec.Struct]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a type name: use lower-case letters, digits and -")
    if not kind.__struct_config__.frozen:
        raise ValueError(f"{kind.__qualname__} is not frozen, so it cannot be shared")
