"""The compression codecs of Avro blocks."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import cramjam
import numpy as np

from lakesweep.errors import DamagedError, LimitError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

_igzip: Any = None
_zlib: Any = zlib
try:
    from isal import igzip_lib, isal_zlib
except ImportError:
    pass  # no wheel for this machine: zlib works too, at half the speed
else:
    _igzip, _zlib = igzip_lib, isal_zlib

# Deflate cannot compress further than this, so small input needs no limit on its output.
_LARGEST_DEFLATE_RATIO = 1032
# Below this size the setup of isal costs more than it saves.
_SMALL = 512
_ZSTANDARD_GROWTH = 32
_CRC_BYTES = 4
# What the strongest preset needs, four times over; a header may ask for far more.
_XZ_MEMORY = 2**28

Inflate = Callable[[memoryview], bytes | memoryview]
_Codec = Callable[[memoryview, int], bytes | memoryview]


class CodecError(ValueError):
    """A block cannot be decompressed. The text says why."""


def find_codec(path: str, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Inflate:
    """The function that decompresses the blocks of one file, within the limits.

    Each block has a bound, and so have all of them together: a file of many small bombs would
    otherwise keep a run busy for hours.
    """
    if name not in _CODECS:
        raise DamagedError(path, f"the codec {name!r} is not known")
    codec, left = _CODECS[name], limits.inflated_bytes

    def inflate(data: memoryview) -> bytes | memoryview:
        nonlocal left
        try:
            inflated = codec(data, limits.block_bytes)
        except _ERRORS as error:
            raise DamagedError(path, f"a block is not {name} data: {error}") from None
        left -= len(inflated)
        if left < 0:
            most = limits.inflated_bytes
            raise LimitError.of(path, "inflates to", most, "limits.inflated_bytes")
        return inflated

    return inflate


def _take_null(data: memoryview, largest: int) -> memoryview:
    if len(data) > largest:
        raise CodecError("it is too large")
    return data


def _inflate_deflate(data: memoryview, largest: int) -> bytes:
    # Bytes after the end of the stream are common: several writers leave part of a checksum there.
    if len(data) * _LARGEST_DEFLATE_RATIO > largest:
        return _inflate_bounded(_zlib.decompressobj(-15), data, largest)
    if _igzip is None or len(data) < _SMALL:
        return zlib.decompress(data, -15, max(4 * len(data), _SMALL))
    inflated: bytes = _igzip.decompress(data, _igzip.DECOMP_DEFLATE, 15, 4 * len(data))
    return inflated


def _inflate_bzip2(data: memoryview, largest: int) -> bytes:
    return _inflate_bounded(bz2.BZ2Decompressor(), data, largest)


def _inflate_xz(data: memoryview, largest: int) -> bytes:
    return _inflate_bounded(lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), data, largest)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


def _inflate_bounded(decompressor: _Decompressor, data: memoryview, largest: int) -> bytes:
    inflated = decompressor.decompress(data, largest + 1)
    too_large = len(inflated) > largest
    if decompressor.eof and not too_large:
        return inflated
    raise CodecError("it is too large" if too_large else "it ends too early")


def _inflate_zstandard(data: memoryview, largest: int) -> memoryview:
    """Decompress into a buffer larger than usual, and a far larger one if that was too small.

    A frame need not state its size, and the library does not distinguish a full buffer from damage.
    """
    capacity = _ZSTANDARD_GROWTH * max(len(data), _SMALL)
    while True:
        inflated = np.empty(min(capacity, largest), dtype=np.uint8).data
        try:
            return inflated[: cramjam.zstd.decompress_into(data, inflated)]
        except cramjam.DecompressionError:
            if capacity >= largest:
                raise
        capacity *= _ZSTANDARD_GROWTH


def _inflate_snappy(data: memoryview, largest: int) -> bytes:
    """Decompress snappy, which Avro follows with the CRC-32 of the decompressed bytes."""
    if len(data) < _CRC_BYTES:
        raise CodecError("its checksum is missing")
    body, checksum = data[:-_CRC_BYTES], bytes(data[-_CRC_BYTES:])
    if cramjam.snappy.decompress_raw_len(body) > largest:
        raise CodecError("it is too large")
    inflated = bytes(cramjam.snappy.decompress_raw(body))
    if _zlib.crc32(inflated) != int.from_bytes(checksum, "big"):
        raise CodecError("its checksum is wrong")
    return inflated


_CODECS: dict[str, _Codec] = {
    "null": _take_null,
    "deflate": _inflate_deflate,
    "snappy": _inflate_snappy,
    "zstandard": _inflate_zstandard,
    "bzip2": _inflate_bzip2,
    "xz": _inflate_xz,
}

_ERRORS: tuple[type[Exception], ...] = (
    CodecError,
    EOFError,
    OSError,
    cramjam.DecompressionError,
    lzma.LZMAError,
    zlib.error,
    _zlib.error,
)
