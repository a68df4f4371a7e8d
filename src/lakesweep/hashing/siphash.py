"""The numba kernel of SipHash-2-4 with 128 bits (Aumasson and Bernstein)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from lakesweep.native import address, inlined, kernel, load8, load_word

State: TypeAlias = tuple[Any, Any, Any, Any]

_INITIAL_0 = np.uint64(0x736F6D6570736575)
_INITIAL_1 = np.uint64(0x646F72616E646F6D)
_INITIAL_2 = np.uint64(0x6C7967656E657261)
_INITIAL_3 = np.uint64(0x7465646279746573)
_WIDE = np.uint64(0xEE)
_SECOND_HALF = np.uint64(0xDD)
_SLASH = ord("/")


@inlined
def _rotate(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _round(state: State) -> State:
    v0, v1, v2, v3 = state
    v0, v2 = v0 + v1, v2 + v3
    v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2, v0 = v2 + v1, v0 + v3
    v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
    return v0, v1, _rotate(v2, 32), v3


@inlined
def _absorb(state: State, word: Any) -> State:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _round(_round((v0, v1, v2, v3 ^ word)))
    return v0 ^ word, v1, v2, v3


@inlined
def _last_word(p: int, size: int) -> Any:
    """The bytes after the last whole word, and the size in the highest byte."""
    word = np.uint64(size) << np.uint64(56)
    rest = size & 7
    if rest and size >= 8:
        return word | load_word(p + size - 8) >> np.uint64(64 - 8 * rest)
    for i in range(rest):
        word |= np.uint64(load8(p + i)) << np.uint64(8 * i)
    return word


@inlined
def _hash(p: int, size: int, key: tuple[Any, Any]) -> tuple[Any, Any]:
    state = (
        key[0] ^ _INITIAL_0,
        key[1] ^ _INITIAL_1 ^ _WIDE,
        key[0] ^ _INITIAL_2,
        key[1] ^ _INITIAL_3,
    )
    for i in range(0, size - 7, 8):
        state = _absorb(state, load_word(p + i))
    v0, v1, v2, v3 = _absorb(state, _last_word(p, size))
    v0, v1, v2, v3 = _round(_round(_round(_round((v0, v1, v2 ^ _WIDE, v3)))))
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _round(_round(_round(_round((v0, v1 ^ _SECOND_HALF, v2, v3)))))
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def hash_strings(data: Any, offsets: Any, key: tuple[Any, Any], low: Any, high: Any) -> None:
    """Hash the strings between neighbouring offsets into `low` and `high`."""
    base = address(data)
    for i in range(len(low)):
        start, end = base + offsets[i], base + offsets[i + 1]
        low[i], high[i] = _hash(start, end - start, key)


@kernel
def hash_names(data: Any, offsets: Any, key: tuple[Any, Any], low: Any, high: Any) -> None:
    """The same of what stands behind the last `/` of each string."""
    base = address(data)
    for i in range(len(low)):
        start, end = base + offsets[i], base + offsets[i + 1]
        name = end
        while name > start and load8(name - 1) != _SLASH:
            name -= 1
        low[i], high[i] = _hash(name, end - name, key)
