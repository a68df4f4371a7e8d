"""The registry of object types: type names, and how values are encoded.

A package offers the types that it keeps in a store as an entry point of the group
`lakesweep.types`: a mapping from type names, as rows hold them, to structs. The command line
opens stores with all of them, so their objects can be read, and maintenance deletes those that
nothing retains. Types that no installed package offers are never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from lakesweep.decoding import msgpack_decoder
from lakesweep.errors import ConfigError, DamagedRowError, UsageError
from lakesweep.store.objects.links import pack, unpack

_NAME = re.compile(r"[a-z][a-z0-9-]{1,63}")
GROUP = "lakesweep.types"
StructTypes = Mapping[str, type[msgspec.Struct]]


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
            name: msgpack_decoder(kind, ext_hook=unpack) for name, kind in types.items()
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


def with_offered_types(own: StructTypes, found: Iterable[EntryPoint] | None = None) -> StructTypes:
    """Our own types and those of other packages; ConfigError if they cannot be used together.

    Never without one of them: a program that knows fewer types than it should deletes nothing of
    theirs, but a package may rely on its objects being maintained.
    """
    types = dict(own)
    for entry in entry_points(group=GROUP) if found is None else found:
        offered = _load(entry)
        for name in sorted(types.keys() & offered.keys()):
            raise _unusable(entry.name, f"there is another type {name}")
        types.update(offered)
        try:
            ObjectTypes(types)
        except (TypeError, ValueError) as error:
            raise _unusable(entry.name, str(error)) from error
    return types


def _load(entry: EntryPoint) -> StructTypes:
    try:
        offered = entry.load()
    except Exception as error:
        raise _unusable(entry.name, str(error)) from error
    if not isinstance(offered, Mapping):
        raise _unusable(entry.name, f"it is a {type(offered).__name__}, not a mapping")
    return offered


def _unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the types of {name} cannot be used: {reason}",
        hint="fix or uninstall the package that offers them",
    )
