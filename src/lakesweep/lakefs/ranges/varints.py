"""Variable-length integers for the kernels of this package.

A position is an address, and a negative one says that there is no number. numba recompiles a
kernel only when its own file changes: after changing this module, touch those that use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakesweep.native import inlined, kernel, load8


@inlined
def varint(p: int, end: int) -> tuple[int, int]:
    """Read one number of up to 64 bits; returns the number and the position after it."""
    if p < end:
        byte = load8(p)
        if byte < 128:
            return byte, p + 1
    return _long_varint(p, end)


@kernel
def _long_varint(p: int, end: int) -> tuple[Any, Any]:
    value = np.int64(0)
    for i in range(10):
        if p + i >= end:
            break
        byte = load8(p + i)
        value |= np.int64(byte & 127) << np.int64(7 * i)
        if byte < 128:
            return value, p + i + 1
    return np.int64(0), np.int64(-1)


@inlined
def skip(p: int, end: int, wire: int) -> int:
    """Skip the value of a field that is not wanted, by its wire type."""
    if wire == 0:
        _, p = varint(p, end)
        return p
    if wire == 2:
        size, p = varint(p, end)
        return p + size if p > 0 and 0 <= size <= end - p else -1
    size = 8 if wire == 1 else 4
    return p + size if (wire == 1 or wire == 5) and size <= end - p else -1
