"""Bloom filters as bytes, format 1.

    8 bytes   `LSBLOOM` and the version
    4 bytes   the size of the header, little-endian
    header    JSON, padded with spaces so that the bits begin at a multiple of 64
    bits      the words of the held shards, little-endian
    32 bytes  the SHA-256 of everything before

The header has the shape, the held shards, and how full they are.
"""

from __future__ import annotations

import hashlib
import math

import msgspec
import numpy as np

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError
from lakesweep.hashing.bloom_filter import BloomFilter, BloomShape, Words, aligned_zeros

_MAGIC = b"LSBLOOM"
_VERSION = 1
_START = len(_MAGIC) + 1 + 4
_ALIGNMENT = 64
_CHECKSUM = 32


class _Header(msgspec.Struct, frozen=True):
    capacity: int
    shards: int
    first_shard: int
    held_shards: int
    blocks: int
    functions: int
    salt: str
    expected_fpp: float
    distinct: int | None


def dump_bloom(bloom: BloomFilter) -> bytes:
    """The filter as bytes."""
    header = msgspec.json.encode(_header(bloom))
    header += b" " * (-(_START + len(header)) % _ALIGNMENT)
    prefix = _MAGIC + bytes([_VERSION]) + len(header).to_bytes(4, "little") + header
    bits = bloom.words.astype("<u8", copy=False).data
    checksum = hashlib.sha256(prefix)
    checksum.update(bits)
    return b"".join((prefix, bits, checksum.digest()))


def bloom_checksum(data: bytes | memoryview) -> str:
    """The SHA-256 at the end of a dumped filter, which `load_bloom` compares with the rest."""
    return bytes(memoryview(data).cast("B")[-_CHECKSUM:]).hex()


def load_bloom(path: str, data: bytes | memoryview) -> BloomFilter:
    """The filter in these bytes, read-only and without a copy; `path` is named in errors.

    The bytes of a mapped file stay in the file, and are shared by all processes that map it.
    """
    view = memoryview(data).cast("B")
    _check(path, view)
    size = int.from_bytes(view[_START - 4 : _START], "little")
    try:
        header = typed_json(view[_START : _START + size], _Header)
        shape = _shape(header)
        shards = range(header.first_shard, header.first_shard + header.held_shards)
        words = np.frombuffer(view[_START + size : -_CHECKSUM], dtype="<u8")
        return BloomFilter(shape, shards, _aligned(words.astype(np.uint64, copy=False)))
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"is not a Bloom filter: {error}") from error


def _header(bloom: BloomFilter) -> _Header:
    shape, fill = bloom.shape, bloom.fill()
    return _Header(
        capacity=shape.capacity,
        shards=shape.shards,
        first_shard=bloom.shards.start,
        held_shards=len(bloom.shards),
        blocks=shape.blocks,
        functions=shape.functions,
        salt=f"{shape.salt:032x}",
        # Rounded to six digits, the value is the same on every machine.
        expected_fpp=float(f"{fill.expected_fpp:.6g}"),
        distinct=round(fill.distinct) if math.isfinite(fill.distinct) else None,
    )


def _shape(header: _Header) -> BloomShape:
    salt = int(header.salt, 16)
    return BloomShape(header.capacity, header.shards, header.blocks, header.functions, salt)


def _check(path: str, view: memoryview) -> None:
    if view[: len(_MAGIC)] != _MAGIC or len(view) < _START + _CHECKSUM:
        raise DamagedError(path, "is not a Bloom filter")
    if view[len(_MAGIC)] != _VERSION:
        raise DamagedError(path, f"unknown Bloom filter version {view[len(_MAGIC)]}")
    if hashlib.sha256(view[:-_CHECKSUM]).digest() != view[-_CHECKSUM:]:
        raise DamagedError(path, "the checksum of the Bloom filter does not match its bytes")


def _aligned(words: Words) -> Words:
    """The words themselves if blocks are aligned to cache lines; otherwise an aligned copy."""
    if words.ctypes.data % _ALIGNMENT == 0:
        return words
    copy = aligned_zeros(len(words))
    copy[:] = words
    copy.flags.writeable = False
    return copy
