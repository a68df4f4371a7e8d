"""Blocks of a table file: where they are, whether they are whole, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import cramjam
import numpy as np
import numpy.typing as npt

from lakesweep.errors import DamagedError
from lakesweep.lakefs import states

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

#: Behind each block stand a byte for its codec and a checksum.
TRAILER_BYTES = 5

#: Far above what any range has; below it, offsets of 32 bits are enough.
LARGEST_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks one behind the other, inflated: block i is `raw[bounds[i]:bounds[i + 1]]`."""

    raw: Bytes
    bounds: Numbers


def read_blocks(path: str, data: bytes, handles: Numbers) -> Blocks:
    """Check and inflate blocks; a handle is where one begins, and how long it is stored."""
    from lakesweep.lakefs.walk import TABLES, first_damaged, raw_sizes  # imports numba

    file = np.frombuffer(data, np.uint8)
    _check_places(path, handles, len(data))
    if (row := first_damaged(file, handles, TABLES)) >= 0:
        raise DamagedError(path, f"the block at byte {handles[row, 0]} has another checksum")
    sizes = np.empty(len(handles), np.int64)
    if (row := raw_sizes(file, handles, sizes)) >= 0:
        raise DamagedError(path, _why_not_inflated(data, *handles[row].tolist()))
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    if bounds[-1] > LARGEST_BYTES:
        raise DamagedError(path, states.REASONS[states.TOO_LARGE])
    return Blocks(_inflate(path, data, handles, bounds), bounds)


def _check_places(path: str, handles: Numbers, end: int) -> None:
    starts, sizes = handles.T
    outside = (starts < 0) | (sizes < 0) | (starts > end) | (sizes > end)
    outside |= starts + sizes + TRAILER_BYTES > end
    if outside.any():
        raise DamagedError(path, f"a block at byte {starts[outside][0]} lies beyond its end")


def _why_not_inflated(data: bytes, start: int, size: int) -> str:
    codec = data[start + size]
    known = {2: "zlib", 3: "bzip2", 4: "LZ4", 7: "Zstandard"}
    if codec == 1:
        return f"the block at byte {start} is no snappy data"
    return (
        f"the block at byte {start} has codec {codec} ({known.get(codec, 'unknown')}), not snappy"
    )


def _inflate(path: str, data: bytes, handles: Numbers, bounds: Numbers) -> Bytes:
    from lakesweep.lakefs.walk import SNAPPY

    raw = np.empty(int(bounds[-1]), np.uint8)
    source, target, inflate = memoryview(data), raw.data, cramjam.snappy.decompress_raw_into
    begin = 0
    for (start, size), end in zip(handles.tolist(), bounds[1:].tolist(), strict=True):
        stored, room = source[start : start + size], target[begin:end]
        if data[start + size] == SNAPPY:
            try:
                written = inflate(stored, room)
            except cramjam.DecompressionError as error:
                raise DamagedError(path, f"the block at byte {start}: {error}") from None
            if written != end - begin:
                raise DamagedError(path, f"the block at byte {start} is no snappy data")
        else:
            room[:] = stored
        begin = end
    raw.flags.writeable = False
    return raw


def check(path: str, state: int) -> None:
    """Raise what a kernel found wrong."""
    if state < 0:
        raise DamagedError(path, states.REASONS[state])


def read_small_block(path: str, data: bytes, handle: tuple[int, int]) -> Mapping[bytes, bytes]:
    """The records of a block with plain keys, as a file has two of, for what it says of itself."""
    blocks = read_blocks(path, data, np.array([handle], np.int64))
    try:
        return dict(_small_records(blocks.raw.tobytes()))
    except (IndexError, ValueError):
        raise DamagedError(path, states.REASONS[states.PAST_END]) from None


def _small_records(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("no room for the restart points")
    key, at = b"", 0
    while at < end:
        shared, at = uvarint(block, at)
        unshared, at = uvarint(block, at)
        size, at = uvarint(block, at)
        if shared > len(key) or at + unshared + size > end:
            raise ValueError("a record beyond the end")
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + size]
        at += size


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """One number without a sign, and where it ends; IndexError where the bytes end before."""
    value = shift = 0
    while (byte := data[at]) >= 128:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
