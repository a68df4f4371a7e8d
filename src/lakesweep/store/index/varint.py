"""Whole numbers of 7 bits a byte, the lowest first; the highest bit says that more follows."""

from __future__ import annotations

from lakesweep.errors import DamagedError

_MOST_BYTES = 9


def write(number: int) -> bytes:
    """The bytes of a number that is not negative."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def read(data: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = 0
    for i, group in enumerate(data[place : place + _MOST_BYTES]):
        number |= (group & 0x7F) << 7 * i
        if group < 0x80:
            return number, place + i + 1
    raise DamagedError("index", "a number does not end")
