"""Avro object container files: the header, and the blocks after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.avro import opcodes
from lakesweep.avro.schema import AvroSchemaError, parse_json
from lakesweep.errors import DamagedError, EncryptedError, LimitError, TruncatedError

Data: TypeAlias = bytes | memoryview | pa.Buffer

_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
_SYNC_BYTES = 16
_BLOCKS_AT_ONCE = 4096
_LONGEST_VARINT = 10
# A header holds a handful of entries, and a schema of some kilobytes.
_MOST_ENTRIES = 10_000
_LARGEST_SCHEMA = 2**24


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
