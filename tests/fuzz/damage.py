"""Damage to files, by chance: what disks, networks, bugs and attackers do to them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

#: Numbers at the edges of what formats and columns hold.
NASTY_NUMBERS = (0, -1, 1, 127, 128, 2**31 - 1, 2**31, 2**32, -(2**31), 2**53, 2**60, 2**62)
NASTY_LONGS = (*NASTY_NUMBERS, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30)
NASTY_TEXTS = (
    "",
    "\0",
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "..",
    "/",
    "s3://",
    "s3://\0/",
    "%00",
    "x" * 5000,
)
_NASTY_BYTES = (b"\0", b"\xff", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\xff\xfe", b"PAR1")


def damaged(data: bytes, chance: Random, others: Sequence[bytes] = ()) -> bytes:
    """The file with one to four pieces of damage; `others` are files to splice parts of."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_DAMAGES)(data, chance, others)
    return data


def damaged_document(document: Any, chance: Random) -> bytes:
    """A JSON document with one to three of its values replaced, or its text damaged."""
    copy = json.loads(json.dumps(document))
    for _ in range(chance.randint(1, 3)):
        _spoil(copy, chance)
    data = json.dumps(copy).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        data = data.replace(b": 1", b": " + b"1" * 5000, 1)
    return damaged(data, chance) if chance.random() < 0.3 else data


def _flip(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    found = bytearray(data)
    for _count in range(chance.randint(1, 8)):
        found[_place(data, chance)] ^= 1 << chance.randrange(8)
    return bytes(found)


def _cut(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    return data[: _place(data, chance)]


def _remove(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    first = _place(data, chance)
    return data[:first] + data[first + chance.randint(1, 64) :]


def _repeat(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    first = _place(data, chance)
    piece = data[first : first + chance.randint(1, 256)]
    return data[:first] + piece * chance.randint(2, 20) + data[first:]


def _splice(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    other = chance.choice(others) if others else data
    return data[: _place(data, chance)] + other[_place(other, chance) :]


def _number(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    """Write a nasty number where a length may be."""
    value = chance.choice(NASTY_NUMBERS)
    code = chance.choice(["<i", "<q", ">i", ">q"])
    packed = struct.pack(code, value if code[1] == "q" else max(-(2**31), min(value, 2**31 - 1)))
    return _overwrite(data, chance, packed)


def _varint(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    left, out = chance.choice(NASTY_NUMBERS) & (2**64 - 1), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return _overwrite(data, chance, bytes([*out, left]))


def _known(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    return _overwrite(data, chance, chance.choice(_NASTY_BYTES))


_DAMAGES: tuple[Callable[[bytes, Random, Sequence[bytes]], bytes], ...] = (
    *(_flip, _flip, _flip, _cut, _remove, _repeat, _splice, _number, _varint, _known),
)


def _overwrite(data: bytes, chance: Random, piece: bytes) -> bytes:
    first = _place(data, chance)
    return data[:first] + piece + data[first + len(piece) :]


def _place(data: bytes, chance: Random) -> int:
    """Anywhere; more often near the ends, where headers and footers are."""
    if not data:
        return 0
    near = min(len(data), 200)
    choice = chance.random()
    if choice < 0.3:
        return chance.randrange(near)
    return len(data) - 1 - chance.randrange(near if choice < 0.6 else len(data))


def _spoil(node: Any, chance: Random) -> None:
    """Replace, remove or repeat one value somewhere below."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        below = node[key]
        if isinstance(below, dict | list) and below and chance.random() < 0.8:
            node = below
            continue
        break
    match chance.randrange(5):
        case 0:
            del node[key]
        case 1 if isinstance(node, list):
            node.extend([below] * chance.randint(1, 50))
        case _:
            node[key] = _nasty(below, chance)


def _nasty(value: Any, chance: Random) -> Any:
    """A value of the same type that is hard to take, or one of another type."""
    if chance.random() < 0.3:
        return chance.choice(
            [None, True, [], {}, 1.5, 1e300, "text", 7, [[[[]]]], {"a": {"b": []}}]
        )
    if isinstance(value, int):
        return chance.choice(NASTY_LONGS)
    if isinstance(value, str):
        place = chance.randrange(len(value) + 1)
        return value[:place] + chance.choice(NASTY_TEXTS) + value[place:]
    return chance.choice([*NASTY_LONGS, *NASTY_TEXTS])
