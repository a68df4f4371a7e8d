"""Avro object container files: the header, the blocks after it, and their compression codecs."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import cramjam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro import opcodes
from lakesweep.avro.schema import AvroSchemaError, parse_json
from lakesweep.errors import DamagedError, EncryptedError, LimitError, TruncatedError
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits

Data: TypeAlias = bytes | memoryview | pa.Buffer
_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
_SYNC_BYTES = 16
_BLOCKS_AT_ONCE = 4096
_LONGEST_VARINT = 10
# A header holds a handful of entries, and a schema of some kilobytes.
_MOST_ENTRIES = 10_000
_LARGEST_SCHEMA = 2**24
_igzip: Any = None
_zlib: Any = zlib


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What a file declares, with its schema as parsed JSON."""

    schema: Any
    codec: str
    metadata: dict[str, bytes]
    sync: bytes


@dataclass(frozen=True, slots=True)
class RawHeader:
    """A header as in the file; `blocks_at` is the offset of the first block."""

    path: str
    metadata: dict[str, bytes]
    sync: bytes
    blocks_at: int

    @property
    def codec(self) -> str:
        try:
            return self.metadata.get("avro.codec", b"null").decode()
        except UnicodeDecodeError:
            raise DamagedError(self.path, "the header's codec is not text") from None

    @property
    def schema(self) -> bytes:
        if "avro.schema" not in self.metadata:
            raise DamagedError(self.path, "the header has no schema")
        schema = self.metadata["avro.schema"]
        if len(schema) > _LARGEST_SCHEMA:
            raise LimitError(self.path, f"its schema has {len(schema):,} bytes")
        return schema


def read_header(path: str, data: Data) -> AvroHeader:
    """Read the header of a file. `path` names the file in errors."""
    header = read_raw_header(path, data)
    try:
        schema = parse_json(header.schema)
    except AvroSchemaError as error:
        raise DamagedError(path, str(error)) from None
    return AvroHeader(schema, header.codec, header.metadata, header.sync)


def read_raw_header(path: str, data: Data) -> RawHeader:
    """Read the header of a file, without parsing its schema."""
    reader = _Reader(path, memoryview(data))
    _check_magic(path, bytes(reader.data[: len(_MAGIC)]))
    reader.position = len(_MAGIC)
    metadata = reader.read_map()
    sync = reader.take(_SYNC_BYTES)
    return RawHeader(path, metadata, sync, reader.position)


def find_blocks(header: RawHeader, data: Data) -> Iterator[npt.NDArray[np.int64]]:
    """Find the blocks of a file: tables of (first byte, end, records)."""
    from lakesweep.avro import decoder_kernels

    everything = read_only(data)
    sync = np.frombuffer(header.sync, dtype=np.uint8)
    position = header.blocks_at
    while position < len(everything):
        table = np.empty((_BLOCKS_AT_ONCE, 3), dtype=np.int64)
        found, position, status = decoder_kernels.find_blocks(everything, position, sync, table)
        if status != opcodes.DONE:
            error = TruncatedError if status == opcodes.FILE_ENDS else DamagedError
            raise error(header.path, f"{opcodes.REASONS[status]} (block at byte {position})")
        yield table[:found]


def read_only(data: Data) -> npt.NDArray[np.uint8]:
    """The bytes in the form that the kernels take, which are compiled for one kind of array."""
    return np.frombuffer(memoryview(data).toreadonly(), dtype=np.uint8)


def _check_magic(path: str, magic: bytes) -> None:
    if magic == _ENCRYPTED_MAGIC:
        raise EncryptedError(path, "is encrypted (an AES-GCM stream)")
    if magic == _MAGIC:
        return
    if _MAGIC.startswith(magic):
        raise TruncatedError(path, "ends inside the header" if magic else "is empty")
    raise DamagedError(path, "is not an Avro file")


@dataclass(slots=True)
class _Reader:
    """Reads the few values of a header."""

    path: str
    data: memoryview
    position: int = 0

    def take(self, size: int) -> bytes:
        if size < 0:
            raise DamagedError(self.path, "a length in the header is negative")
        if size > len(self.data) - self.position:
            raise TruncatedError(self.path, "ends inside the header")
        self.position += size
        return bytes(self.data[self.position - size : self.position])

    def read_long(self) -> int:
        value = 0
        for i in range(_LONGEST_VARINT):
            byte = self.take(1)[0]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise DamagedError(self.path, "a number in the header has more than 10 bytes")

    def read_map(self) -> dict[str, bytes]:
        values: dict[str, bytes] = {}
        while (count := self.read_long()) != 0:
            if count < 0:
                self.read_long()
            if abs(count) + len(values) > _MOST_ENTRIES:
                raise DamagedError(self.path, "the header has too many entries")
            for _ in range(abs(count)):
                key = self.take(self.read_long())
                values[self._text(key)] = self.take(self.read_long())
        return values

    def _text(self, key: bytes) -> str:
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise DamagedError(self.path, "a name in the header is not text") from None


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
