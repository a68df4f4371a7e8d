"""The recent pointers of a reference as bytes, in one column."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def pack_pointers(pointers: Sequence[int]) -> bytes:
    """Eight bytes a pointer, in order."""
    return struct.pack(f">{len(pointers)}q", *pointers)


def unpack_pointers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 8}q", data)
