"""Order-preserving keys: byte strings that sort like the tuples they encode.

Text and byte strings end with a zero byte; inside, 0 is written as 1 1, and 1 as 1 2. Integers are
as short as possible, with width and sign in the first byte. No component's encoding is a prefix of
another's, so a key starts with the encoding of a tuple exactly if its own tuple starts with that
tuple. Byte strings sort before text, text before numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lakesweep.errors import DamagedError, NameTooLongError

Component: TypeAlias = bytes | str | int

MAX_KEY_BYTES = 2048

_BYTES = 0x01
_TEXT = 0x02
_ZERO = 0x20
_WIDEST = 8
_END = b"\x00"


def encode(components: tuple[Component, ...]) -> bytes:
    """The key of a tuple. Numbers have up to 64 bits plus the sign."""
    key = b"".join(map(_encode_one, components))
    if len(key) > MAX_KEY_BYTES:
        raise NameTooLongError(f"a key has at most {MAX_KEY_BYTES} bytes, this one has {len(key)}")
    return key


def key(*components: Component) -> bytes:
    """The key of these components."""
    return encode(components)


def decode(key: bytes) -> tuple[Component, ...]:
    """The tuple of a key."""
    return tuple(_decode_one(key, start, end) for start, end in _bounds(key))


def component_end(key: bytes, start: int) -> int:
    """Where the component that starts at `start` ends."""
    if start >= len(key):
        raise DamagedError("index key", "ends where a component should start")
    kind = key[start]
    if kind in (_BYTES, _TEXT):
        end = key.find(_END, start) + 1
    elif abs(kind - _ZERO) <= _WIDEST:
        end = start + 1 + abs(kind - _ZERO)
    else:
        raise DamagedError("index key", f"has no component of kind {kind}")
    if not start < end <= len(key):
        raise DamagedError("index key", "ends inside a component")
    return end


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest key above all keys with the prefix; None if there is no bound."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def _encode_one(component: Component) -> bytes:
    if isinstance(component, str):
        return _encode_string(_TEXT, component.encode())
    if isinstance(component, bytes):
        return _encode_string(_BYTES, component)
    return _encode_number(component)


def _encode_string(kind: int, data: bytes) -> bytes:
    escaped = data.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")
    return bytes((kind,)) + escaped + _END


def _encode_number(number: int) -> bytes:
    width = (abs(number).bit_length() + 7) // 8
    if width > _WIDEST:
        raise ValueError(f"{number} has more than 64 bits")
    if number >= 0:
        return bytes((_ZERO + width,)) + number.to_bytes(width, "big")
    return bytes((_ZERO - width,)) + (number + (1 << 8 * width) - 1).to_bytes(width, "big")


def _bounds(key: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(key):
        end = component_end(key, start)
        yield start, end
        start = end


def _decode_one(key: bytes, start: int, end: int) -> Component:
    kind, body = key[start], key[start + 1 : end]
    if kind == _BYTES:
        return _decode_bytes(body)
    if kind == _TEXT:
        return _decode_text(_decode_bytes(body))
    number = int.from_bytes(body, "big")
    return number if kind >= _ZERO else number - (1 << 8 * len(body)) + 1


def _decode_bytes(body: bytes) -> bytes:
    return body[:-1].replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedError("index key", "contains text that is not UTF-8") from error
