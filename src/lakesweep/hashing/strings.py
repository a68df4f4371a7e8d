"""Hash columns of strings, and sort the hashes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: The two halves of 128-bit hashes: low words and high words, one per string.
Hashes: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

#: The bytes of a column of strings, and the offset of each, plus the end of the last.
Strings: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32] | npt.NDArray[np.int64]]

_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}
_WORD = 2**64


def hash128(strings: pa.Array | pa.ChunkedArray, salt: int = 0) -> Hashes:
    """Hash strings with SipHash-2-4, whose 128-bit key is the salt.

    Without the salt, collisions cannot be constructed. ValueError if there are nulls.
    """
    return _hash(strings, salt, "hash_strings")


def hash_names(paths: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash the part of each path after the last `/`."""
    return _hash(paths, 0, "hash_names")


def _hash(strings: pa.Array | pa.ChunkedArray, salt: int, kernel: str) -> Hashes:
    if strings.type not in _OFFSETS:
        raise ValueError(f"only strings can be hashed, not {strings.type}")
    if strings.null_count:
        raise ValueError("a null has no hash")
    if not 0 <= salt < _WORD * _WORD:
        raise ValueError("a salt has 128 bits and no sign")
    low, high = np.empty((2, len(strings)), dtype=np.uint64)
    done = 0
    for chunk in strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]:
        after = done + len(chunk)
        _hash_chunk(chunk, salt, kernel, (low[done:after], high[done:after]))
        done = after
    return low, high


def _hash_chunk(strings: pa.Array, salt: int, kernel: str, into: Hashes) -> None:
    from lakesweep.hashing import siphash  # imports numba

    if not len(strings):
        return
    characters, places = string_buffers(strings)
    key = np.uint64(salt % _WORD), np.uint64(salt // _WORD)
    getattr(siphash, kernel)(characters, places, key, *into)


def string_buffers(strings: pa.Array) -> Strings:
    """The memory of a column of strings, as kernels read it; nulls look like empty strings."""
    if not len(strings):
        return np.frombuffer(b"", dtype=np.uint8), np.zeros(1, dtype=_OFFSETS[strings.type])
    _, offsets, data = strings.buffers()
    # Kernels are compiled for arrays that are read-only.
    places = np.frombuffer(memoryview(offsets).toreadonly(), dtype=_OFFSETS[strings.type])
    characters = np.frombuffer(memoryview(data or b"").toreadonly(), dtype=np.uint8)
    return characters, places[strings.offset : strings.offset + len(strings) + 1]


def readable(array: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A contiguous, read-only view, so that kernels are compiled for one type only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def hash_order(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The indices that sort the hashes, by low word and then by high word.

    Equal low words are so rare that sorting by both happens only if there are any.
    """
    low, high = hashes
    order = np.argsort(low)
    same = np.diff(low[order]) == 0
    return np.lexsort((high, low)) if np.any(same & (np.diff(high[order]) != 0)) else order
