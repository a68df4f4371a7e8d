"""Turns JSON, MessagePack and plain values into typed ones, whatever thread asks first.

msgspec (0.22) learns the fields of a class when it is first decoded, and while it does so another
thread finds the class half known and ends the whole process by a segmentation fault. So classes
are learned here, one at a time, before anything is decoded into them; the rest of the project
decodes through this module alone.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_Hook = Callable[[int, memoryview], Any]

_learning = threading.RLock()
_json: dict[tuple[Any, bool], msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


@overload
def typed_json(data: bytes | bytearray | memoryview | str, kind: type[_T]) -> _T: ...
@overload
def typed_json(data: bytes | bytearray | memoryview | str, kind: Any) -> Any: ...
def typed_json(data: bytes | bytearray | memoryview | str, kind: Any) -> Any:
    return json_decoder(kind).decode(data)


@overload
def typed_msgpack(data: bytes | bytearray | memoryview, kind: type[_T]) -> _T: ...
@overload
def typed_msgpack(data: bytes | bytearray | memoryview, kind: Any) -> Any: ...
def typed_msgpack(data: bytes | bytearray | memoryview, kind: Any) -> Any:
    found = _msgpack.get(kind)
    if found is None:
        found = _msgpack[kind] = msgpack_decoder(kind)
    return found.decode(data)


@overload
def convert(value: object, kind: type[_T], *, strict: bool = True) -> _T: ...
@overload
def convert(value: object, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: object, kind: Any, *, strict: bool = True) -> Any:
    json_decoder(kind)  # for what it learns
    return msgspec.convert(value, kind, strict=strict)


@overload
def json_decoder(kind: type[_T], *, strict: bool = True) -> msgspec.json.Decoder[_T]: ...
@overload
def json_decoder(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any, *, strict: bool = True) -> msgspec.json.Decoder[Any]:
    """The one decoder of this kind. Making it learns every class that the kind contains."""
    found = _json.get((kind, strict))
    if found is None:
        with _learning:
            found = _json[kind, strict] = msgspec.json.Decoder(kind, strict=strict)
    return found


@overload
def msgpack_decoder(
    kind: type[_T], ext_hook: _Hook | None = None
) -> msgspec.msgpack.Decoder[_T]: ...
@overload
def msgpack_decoder(kind: Any, ext_hook: _Hook | None = None) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(kind: Any, ext_hook: _Hook | None = None) -> msgspec.msgpack.Decoder[Any]:
    """A decoder to keep; `ext_hook` makes the values of MessagePack's extension types."""
    with _learning:
        return msgspec.msgpack.Decoder(kind, ext_hook=ext_hook)
