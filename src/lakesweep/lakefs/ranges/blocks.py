"""Blocks of an SSTable: locate, verify and inflate them.

The ids of ranges, entries and commits are hashes of their content, which verify what was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cramjam
import numpy as np
import numpy.typing as npt

from lakesweep.errors import DamagedError
from lakesweep.lakefs.ranges import error_codes

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
#: Far above what any range has; below it, offsets of 32 bits are enough.
LARGEST_BYTES = 2**31 - 1
#: The tenth byte of a number is its last.
_MOST_SHIFT = 63
_BYTES, _STRING, _INT, _STRINGS, _MAP, _EMBEDDED = range(6)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Consecutive blocks, inflated: block i is `raw[bounds[i]:bounds[i + 1]]`."""

    raw: Bytes
    bounds: Numbers


def read_blocks(path: str, data: bytes, handles: Numbers) -> Blocks:
    """Verify and inflate blocks; a handle is the offset and the stored length of one."""
    bounds = check_blocks(path, data, handles)
    raw = np.empty(int(bounds[-1]), np.uint8)
    inflate(path, data, handles, bounds, raw)
    raw.flags.writeable = False
    return Blocks(raw, bounds)


def check_blocks(path: str, data: bytes, handles: Numbers) -> Numbers:
    """Verify blocks; returns where each begins and ends once inflated consecutively.

    There is one number more than there are blocks.
    """
    from lakesweep.lakefs.ranges.checksums import TABLES, first_damaged, first_outside, raw_sizes

    file = np.frombuffer(data, np.uint8)
    if (row := first_outside(handles, len(data))) >= 0:
        raise DamagedError(path, f"a block at byte {handles[row, 0]} lies beyond its end")
    if (row := first_damaged(file, handles, TABLES)) >= 0:
        raise DamagedError(path, f"the block at byte {handles[row, 0]} has another checksum")
    sizes = np.empty(len(handles), np.int64)
    if (row := raw_sizes(file, handles, sizes)) >= 0:
        raise DamagedError(path, _why_not_inflated(data, *handles[row].tolist()))
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    if bounds[-1] > LARGEST_BYTES:
        raise DamagedError(path, error_codes.REASONS[error_codes.TOO_LARGE])
    return bounds


def _why_not_inflated(data: bytes, start: int, size: int) -> str:
    codec = data[start + size]
    known = {2: "zlib", 3: "bzip2", 4: "LZ4", 7: "Zstandard"}
    if codec == 1:
        return f"the block at byte {start} is not snappy data"
    return (
        f"the block at byte {start} has codec {codec} ({known.get(codec, 'unknown')}), not snappy"
    )


def inflate(path: str, data: bytes, handles: Numbers, bounds: Numbers, raw: Bytes) -> None:
    """Inflate verified blocks to their bounds."""
    from lakesweep.lakefs.ranges.checksums import SNAPPY

    source, target, decompress = memoryview(data), raw.data, cramjam.snappy.decompress_raw_into
    begin = int(bounds[0])
    for (start, size), end in zip(handles.tolist(), bounds[1:].tolist(), strict=True):
        stored, room = source[start : start + size], target[begin:end]
        if data[start + size] == SNAPPY:
            try:
                written = decompress(stored, room)
            except cramjam.DecompressionError as error:
                raise DamagedError(path, f"the block at byte {start}: {error}") from None
            if written != end - begin:
                raise DamagedError(path, f"the block at byte {start} is not snappy data")
        else:
            room[:] = stored
        begin = end


def raise_for_code(path: str, state: int) -> None:
    """Raise the error that a kernel found."""
    if state < 0:
        raise DamagedError(path, error_codes.REASONS[state])


def read_small_block(path: str, data: bytes, handle: tuple[int, int]) -> Mapping[bytes, bytes]:
    """The records of a block with plain keys: a file has two of them, for its own description."""
    blocks = read_blocks(path, data, np.array([handle], np.int64))
    try:
        return dict(_small_records(blocks.raw.tobytes()))
    except (IndexError, ValueError):
        raise DamagedError(path, error_codes.REASONS[error_codes.PAST_END]) from None


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
    """One unsigned number of 64 bits, and where it ends.

    IndexError if the bytes end before, ValueError if it has more bits.
    """
    value = shift = 0
    while (byte := data[at]) >= 128 and shift < _MOST_SHIFT:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    value |= byte << shift
    if value >= 1 << 64:
        raise ValueError("a number of more than 64 bits")
    return value, at + 1


class SSTableHash:
    """The id of a range or a metarange: of its records and its named properties."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()

    def add(self, piece: bytes | memoryview) -> None:
        """Add records, each with its lengths."""
        self._found.update(piece)

    def finish(self, named: Mapping[str, bytes]) -> str:
        """The id, once all records were added."""
        self._found.update(_encode_map(named))
        return self._found.hexdigest()


def _encode_int(number: int) -> bytes:
    return bytes((_INT, 8)) + number.to_bytes(8, "big", signed=True)


def _encode_bytes(data: bytes, kind: int = _BYTES) -> bytes:
    return bytes((kind,)) + _encode_int(len(data)) + data


def _encode_map(pairs: Mapping[str, bytes]) -> bytes:
    parts = (part for key in sorted(pairs) for part in (key.encode(), pairs[key]))
    texts = b"".join(_encode_bytes(part, _STRING) for part in parts)
    return bytes((_MAP,)) + _encode_int(len(pairs)) + texts


def entry_identity(
    size_bytes: int, checksum: str, metadata: Mapping[str, str], content_type: str
) -> bytes:
    """The identity of an entry; it does not include the address of its object."""
    texts = {key: value.encode() for key, value in metadata.items()}
    parts = _encode_int(size_bytes) + _encode_bytes(checksum.encode(), _STRING) + _encode_map(texts)
    if content_type:
        parts += _encode_bytes(content_type.encode(), _STRING)
    return hashlib.sha256(parts).digest()


def commit_id(
    committer: str,
    message: str,
    metarange_id: str,
    seconds: int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """The id of a commit, from its contents and its parents."""
    texts = ("commit:v1", committer, message, metarange_id)
    named = b"".join(_encode_bytes(text.encode(), _STRING) for text in texts)
    pairs = _encode_map({key: value.encode() for key, value in metadata.items()})
    before = b"".join(_encode_bytes(parent.encode(), _STRING) for parent in parents)
    lineage = hashlib.sha256(bytes((_STRINGS,)) + _encode_int(len(parents)) + before).digest()
    embedded = bytes((_EMBEDDED,)) + _encode_bytes(lineage)
    return hashlib.sha256(named + _encode_int(seconds) + pairs + embedded).hexdigest()
